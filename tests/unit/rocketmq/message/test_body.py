from __future__ import annotations

import zlib

import pyarrow as pa
import pytest

from logdex.errors import CorruptError
from logdex.rocketmq.message.body import body_codec, decompress_body, is_inner_batch
from logdex.rocketmq.message.stored_message import encode_message
from logdex.testing.store_builder import make_message

PLAIN = b"the same words again, " * 4000


def compressed(codec: str, data: bytes = PLAIN) -> bytes:
    if codec == "zlib":
        return zlib.compress(data)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return bytes(sink.getvalue())


CASES = [(0x001, "zlib"), (0x301, "zlib"), (0x101, "lz4"), (0x201, "zstd")]


@pytest.mark.parametrize(("sys_flag", "codec"), CASES)
def test_bodies_come_back(sys_flag: int, codec: str) -> None:
    assert body_codec(sys_flag) == codec
    for plain in (PLAIN, b"", b"x"):
        assert decompress_body(make_message(body=compressed(codec, plain), sys_flag=sys_flag)) == plain


@pytest.mark.parametrize(("sys_flag", "codec"), CASES)
def test_harmed_bodies_are_located(sys_flag: int, codec: str) -> None:
    body = compressed(codec)
    for harmed in (body[:-1], body[: len(body) // 2], body[:3], b"\xff" * 40):
        message = make_message(body=harmed, sys_flag=sys_flag)
        at = encode_message(message).index(harmed)
        with pytest.raises(CorruptError, match=codec) as caught:
            decompress_body(message, path="log", position=77)
        assert (caught.value.path, caught.value.position) == ("log", 77 + at)


@pytest.mark.parametrize(("sys_flag", "codec"), CASES)
def test_a_body_is_never_inflated_beyond_the_bound(sys_flag: int, codec: str) -> None:
    message = make_message(body=compressed(codec, bytes(10_000)), sys_flag=sys_flag)
    assert len(decompress_body(message, size_bytes_max=10_000)) == 10_000
    with pytest.raises(CorruptError, match="at most 9999"):
        decompress_body(message, size_bytes_max=9_999)


def test_what_is_not_compressed_and_what_is_unknown() -> None:
    assert decompress_body(make_message(body=b"plain", sys_flag=0x300)) == b"plain"
    with pytest.raises(CorruptError, match="compression type is unknown"):
        decompress_body(make_message(body=b"?", sys_flag=0x701))
    assert decompress_body(make_message(body=b"", sys_flag=0x101)) == b""
    assert is_inner_batch(0x80)
    assert not is_inner_batch(0x40)
