"""The codecs: what Kafka's streams read beyond what it writes, what they refuse, and bombs."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor

import lz4.frame
import pyarrow as pa
import pytest
import zstandard

from logdex.errors import CorruptError
from logdex.kafka.batch.compression import compress, decompress
from logdex.kafka.batch.record import Compression

GZIP, SNAPPY, LZ4, ZSTD = Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD
CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
TEXT = b"invoice payment warehouse refund " * 5000
"""Several blocks of snappy and of LZ4."""


def _refused(codec: Compression, data: bytes, text: str, *, size_bytes_max: int = 1 << 24, magic: int = 2) -> None:
    with pytest.raises(CorruptError, match=text) as told:
        decompress(codec, data, magic=magic, size_bytes_max=size_bytes_max, path="x.log", position=77)
    assert (told.value.path, told.value.position, told.value.field) == ("x.log", 77, "records")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("plain", [b"x", TEXT, os.urandom(200_000)], ids=["one", "text", "noise"])
def test_comes_back(codec: Compression, plain: bytes) -> None:
    assert decompress(codec, compress(codec, plain)) == plain
    assert decompress(codec, memoryview(compress(codec, plain))) == plain


def test_none_is_the_bytes_themselves() -> None:
    assert compress(Compression.NONE, b"abc") == b"abc"
    assert decompress(Compression.NONE, memoryview(b"abc")) == b"abc"


def test_what_is_written_begins_as_kafkas_streams_do() -> None:
    assert compress(GZIP, TEXT)[:10].hex() == "1f8b08000000000000ff"
    assert compress(SNAPPY, TEXT)[:16].hex() == "82534e4150505900" + "00000001" * 2
    assert compress(LZ4, TEXT)[:7].hex() == "04224d18604082"
    assert zstandard.get_frame_parameters(compress(ZSTD, TEXT)).content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert compress(LZ4, b"abc")[7:].hex() == "03000080" + b"abc".hex() + "00000000"  # stored plain


@pytest.mark.parametrize("codec", CODECS)
def test_bombs_end_at_the_bound(codec: Compression) -> None:
    packed = compress(codec, bytes(1 << 25))
    assert len(packed) < 1 << 21
    _refused(codec, packed, "at most 100000 bytes", size_bytes_max=100_000)
    assert len(decompress(codec, packed, size_bytes_max=1 << 25)) == 1 << 25
    _refused(codec, packed, "too large when decompressed", size_bytes_max=(1 << 25) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_cut_off_and_empty_streams(codec: Compression) -> None:
    packed = compress(codec, TEXT)
    for end in (0, 1, 3, 7, 15, 18, len(packed) // 2, len(packed) - 1):
        if codec is ZSTD and end == 0:
            continue
        if codec is SNAPPY and end == 18:
            assert decompress(codec, packed[:end]) == b""  # as SnappyInputStream: a header alone is an empty stream
            continue
        _refused(codec, packed[:end], f"not a complete {codec.label} stream")


@pytest.mark.parametrize("codec", CODECS)
def test_many_threads_at_once(codec: Compression) -> None:
    plains = [os.urandom(50) * (i + 1) for i in range(64)]
    with ThreadPoolExecutor(8) as pool:
        packed = list(pool.map(lambda plain: compress(codec, plain), plains))
        assert list(pool.map(lambda data: decompress(codec, data), packed)) == plains


# -- gzip ----------------------------------------------------------------------------------------


def test_gzip_members_in_a_row_and_rubbish_behind_them() -> None:
    packed = gzip.compress(b"one ", mtime=0) + gzip.compress(b"two", mtime=0)
    assert decompress(GZIP, packed) == b"one two"
    assert decompress(GZIP, packed + b"rubbish") == b"one two"
    _refused(GZIP, packed[:-9], "not a complete gzip stream")


def test_gzip_checksums_are_checked() -> None:
    packed = bytearray(compress(GZIP, b"data"))
    packed[-8] ^= 1
    _refused(GZIP, bytes(packed), "gzip")
    _refused(GZIP, zlib.compress(b"data"), "gzip")


# -- snappy --------------------------------------------------------------------------------------


def test_snappy_without_a_header_and_streams_in_a_row() -> None:
    raw = pa.Codec("snappy").compress(b"abc" * 100, asbytes=True)
    assert decompress(SNAPPY, raw) == b"abc" * 100
    assert decompress(SNAPPY, b"\0") == b""
    assert decompress(SNAPPY, compress(SNAPPY, b"one ") + compress(SNAPPY, b"two")) == b"one two"


@pytest.mark.parametrize(
    "body",
    [
        struct.pack(">i", 1 << 30) + b"\0" * 9,
        struct.pack(">i", -5) + b"\0" * 9,
        struct.pack(">i", 3) + b"\xff\xff\xff",
        struct.pack(">i", 6) + b"\xff\xff\xff\xff\xff\xff",
        struct.pack(">i", 3) + b"\x05\x00a",
        struct.pack(">i", 0),
        compress(SNAPPY, b"next")[:15],
    ],
)
def test_snappy_blocks_that_cannot_be(body: bytes) -> None:
    _refused(SNAPPY, compress(SNAPPY, b"ok") + body, "snappy")


def test_a_snappy_block_that_claims_4_gib_takes_no_room() -> None:
    _refused(SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\0" * 9, "too large when decompressed")


# -- lz4 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "size", [lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX256KB, lz4.frame.BLOCKSIZE_MAX4MB]
)
@pytest.mark.parametrize("block_checksum", [True, False])
def test_lz4_frames_of_others(size: int, block_checksum: bool) -> None:
    plain = TEXT + os.urandom(70_000)
    frame = lz4.frame.compress(
        plain,
        block_size=size,
        block_linked=False,
        block_checksum=block_checksum,
        content_checksum=True,
        store_size=True,
    )
    assert decompress(LZ4, frame) == plain
    assert decompress(LZ4, frame + b"rubbish") == plain
    assert decompress(LZ4, frame[:-1] + b"?") == plain  # Kafka does not hold the content against its checksum
    _refused(LZ4, frame[:-1], "ends early")
    if block_checksum:
        harmed = bytearray(frame)
        harmed[-9] ^= 1  # the last block's checksum
        _refused(LZ4, bytes(harmed), "checksum")


def test_linked_lz4_blocks_are_refused() -> None:
    _refused(LZ4, lz4.frame.compress(TEXT, block_linked=True, block_size=lz4.frame.BLOCKSIZE_MAX64KB), "linked")


@pytest.mark.parametrize("at", [0, 3, 4, 5, 6])
def test_every_byte_of_an_lz4_header_counts(at: int) -> None:
    harmed = bytearray(compress(LZ4, b"data"))
    for value in range(256):
        if value != compress(LZ4, b"data")[at]:
            harmed[at] = value
            _refused(LZ4, bytes(harmed), "lz4")


def test_lz4_blocks_that_cannot_be() -> None:
    head = compress(LZ4, b"")[:7]
    _refused(LZ4, head, "ends early")
    _refused(LZ4, head + struct.pack("<I", 65537) + bytes(70_000), "at most 65536")
    _refused(LZ4, head + struct.pack("<I", 100) + bytes(50), "ends early")
    _refused(LZ4, head + struct.pack("<I", 5) + b"\xf0\xff\xff\xff\xff", "LZ4 block")


# -- zstd ----------------------------------------------------------------------------------------


def test_zstd_frames_in_a_row_with_and_without_their_size() -> None:
    sized = zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)
    assert decompress(ZSTD, sized + compress(ZSTD, b"two")) == TEXT + b"two"
    _refused(ZSTD, sized + b"rubbish", "zstd")
    _refused(ZSTD, sized[:-1], "ends early")
    harmed = bytearray(sized)
    harmed[-1] ^= 1
    _refused(ZSTD, bytes(harmed), "zstd")
