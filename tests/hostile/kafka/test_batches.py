"""Crafted batches, checksums right: varints, counts, lengths, deltas and offsets that no broker
writes, and bombs.

Each lies between two good batches, whose records `cat` must give.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import lz4.block
import pytest
import zstandard

from logdex.kafka.batch.compression import compress
from logdex.kafka.batch.record import Compression
from logdex.layout.kafka import RECORD_BATCH
from logdex.primitives.crc32c import crc32c_by_table
from logdex.primitives.xxh32 import xxh32
from tests.cli.helpers import rows_of
from tests.examples import cases
from tests.hostile.kafka.hostile import bounded, command, every_way
from tests.unit.kafka.batch.batch_bytes import batch, legacy, record, varint

INT_MAX, LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
NAMES = [field.name for field in RECORD_BATCH.fields]
ONE = record(0, 0, b"k", b"v")
BOMB_BYTES = 300 << 20
"""Above the bound of what a batch may hold."""


def fields(**changed: int) -> bytes:
    """A batch of one record with other header fields and a right checksum."""
    raw = bytearray(batch(ONE, 1, base_offset=10))
    values = dict(zip(NAMES, RECORD_BATCH.struct.unpack(raw[:61]), strict=True)) | changed
    head = RECORD_BATCH.pack(*values.values())
    raw[:61] = head
    raw[17:21] = struct.pack(">I", crc32c_by_table(bytes(raw[21:])))
    return bytes(raw)


def whole(body: bytes) -> bytes:
    return varint(len(body)) + body


BATCHES = {
    "a length of eleven bytes": batch(b"\xff" * 11 + b"\1", 1, base_offset=10),
    "a length that never ends": batch(b"\x80" * 5000, 1, base_offset=10),
    "a length of 2 GiB": batch(varint(INT_MAX) + ONE, 1, base_offset=10),
    "a length below zero": batch(varint(-7) + ONE, 1, base_offset=10),
    "a timestamp delta of eleven bytes": batch(whole(b"\0" + b"\xff" * 10 + b"\1\0\1\1\0"), 1, base_offset=10),
    "the largest timestamp delta": batch(record(0, LONG_MAX, b"k", b"v"), 1, base_offset=10, base_ms=LONG_MAX),
    "the smallest timestamp delta": batch(record(0, -LONG_MAX - 1, b"k", b"v"), 1, base_offset=10),
    "an offset delta below zero": batch(record(-5, 0, b"k", b"v"), 1, base_offset=10),
    "the largest offset delta": batch(record(INT_MAX, 0, b"k", b"v"), 1, base_offset=10),
    "offset deltas that fall": batch(record(1, 0, b"k", b"v") + ONE, 2, base_offset=10),
    "a key of 2 GiB": batch(whole(b"\0\0\0" + varint(INT_MAX) + b"k" * 9), 1, base_offset=10),
    "a key of -2": batch(whole(b"\0\0\0" + varint(-2) + b"\1\0"), 1, base_offset=10),
    "two billion headers": batch(whole(b"\0\0\0\1\1" + varint(INT_MAX)), 1, base_offset=10),
    "headers below zero": batch(whole(b"\0\0\0\1\1" + varint(-1)), 1, base_offset=10),
    "a header has no key": batch(whole(b"\0\0\0\1\1" + varint(1) + b"\1\1"), 1, base_offset=10),
    "bytes behind the last record": batch(ONE + b"\0" * 50, 1, base_offset=10),
    "a count of two billion": fields(count=INT_MAX),
    "thousands of records per byte": batch(zstandard.compress(ONE * 200_000), 200_000, base_offset=10, attributes=4),
    "a count below zero": fields(count=-INT_MAX),
    "more records than stated": batch(ONE * 3, 1, base_offset=10),
    "the largest last offset delta": fields(last_offset_delta=INT_MAX),
    "a last offset delta below zero": fields(last_offset_delta=-1),
    "the smallest last offset delta": fields(last_offset_delta=-INT_MAX - 1),
    "an offset at the end of all": fields(base_offset=LONG_MAX),
    "an offset that overflows": fields(base_offset=LONG_MAX - 5, last_offset_delta=INT_MAX),
    "an offset below zero": fields(base_offset=-(1 << 63)),
    "times at the ends": fields(base_timestamp_ms=-(1 << 63), max_timestamp_ms=LONG_MAX),
    "a codec that there is not": fields(attributes=7),
    "all attributes": fields(attributes=-1),
    "a producer at the ends": fields(producer_id=LONG_MAX, producer_epoch=-(1 << 15), base_sequence=-(1 << 31)),
    "a control batch of a text": fields(attributes=0x30),
    "a control batch without a record": batch(b"", 0, base_offset=10, attributes=0x20, last_delta=0),
    "a leader epoch below zero": fields(leader_epoch=-(1 << 31)),
}
for codec in Compression:
    if codec is not Compression.NONE:
        BATCHES[f"{codec.label}: no stream"] = batch(b"\xff" * 60, 1, base_offset=10, attributes=codec.value)
        BATCHES[f"{codec.label}: nothing"] = batch(b"", 1, base_offset=10, attributes=codec.value)
        BATCHES[f"{codec.label}: a count of two billion"] = batch(
            compress(codec, ONE), INT_MAX, base_offset=10, attributes=codec.value
        )
LEGACY = {
    "a key below -1": legacy(1, 10, None, b"v")[:22] + struct.pack(">i", -9) + legacy(1, 10, None, b"v")[26:],
    "a wrapper in a wrapper": legacy(
        1,
        10,
        None,
        gzip.compress(legacy(1, 0, None, gzip.compress(legacy(1, 0, b"k", b"v")), attributes=1)),
        attributes=1,
    ),
    "a wrapper of magic 2": legacy(1, 10, None, gzip.compress(batch(ONE, 1)), attributes=1),
    "an empty wrapper": legacy(1, 10, None, gzip.compress(b""), attributes=1),
    "a wrapper without a value": legacy(1, 10, None, None, attributes=1),
    "zstd, which came later": legacy(1, 10, None, zstandard.compress(legacy(1, 0, b"k", b"v")), attributes=4),
    "inner offsets above the wrapper's": legacy(1, 0, None, gzip.compress(legacy(1, 99, b"k", b"v")), attributes=1),
    "a wrapper at the end of all": legacy(1, LONG_MAX, None, gzip.compress(legacy(1, 0, b"k", b"v")), attributes=1),
}


def store(tmp_path: Path, crafted: bytes, name: str = "logs") -> Path:
    root = tmp_path / name
    (root / "events-0").mkdir(parents=True)
    good = [batch(record(0, 0, b"k", b"good"), 1, base_offset=offset) for offset in (0, 20)]
    (root / "events-0" / f"{0:020d}.log").write_bytes(good[0] + crafted + good[1])
    return root


def good_lines(stdout: str) -> list[int]:
    rows = rows_of(stdout)
    return [row["offset"] for row in rows if row["value"] == "Z29vZA=="]


@pytest.mark.parametrize("name", cases(BATCHES, 3))
def test_crafted_batches(name: str, tmp_path: Path) -> None:
    """The good batch behind is read, unless the crafted one takes its offset: then it is told."""
    found = every_way(store(tmp_path, BATCHES[name]))
    is_taken = name == "the largest last offset delta"
    assert good_lines(found["cat"].stdout) == ([0] if is_taken else [0, 20])
    if is_taken:
        assert "offset contradicts its neighbours'" in found["cat"].stderr
        assert found["cat"].exit_code == 1


@pytest.mark.parametrize("name", LEGACY)
def test_crafted_messages_of_old(name: str, tmp_path: Path) -> None:
    found = every_way(store(tmp_path, LEGACY[name]))
    assert good_lines(found["cat"].stdout) == [0, 20]


def zeros(codec: Compression, size_bytes: int) -> bytes:
    """A stream that decompresses to so many zeros, made piece by piece."""
    piece, pieces = bytes(4 << 20), size_bytes // (4 << 20)
    if codec is Compression.GZIP:
        stream = zlib.compressobj(9, zlib.DEFLATED, 31)
        return b"".join(stream.compress(piece) for _ in range(pieces)) + stream.flush()
    if codec is Compression.ZSTD:
        packer = zstandard.ZstdCompressor().compressobj()
        return b"".join(packer.compress(piece) for _ in range(pieces)) + packer.flush()
    if codec is Compression.SNAPPY:
        framed = compress(codec, piece)
        return framed[:16] + framed[16:] * pieces
    descriptor = b"\x60\x70"
    block: bytes = lz4.block.compress(piece, store_size=False)
    head = b"\x04\x22\x4d\x18" + descriptor + bytes([xxh32(descriptor) >> 8 & 0xFF])
    return head + (struct.pack("<I", len(block)) + block) * pieces + bytes(4)


CODECS = [codec for codec in Compression if codec is not Compression.NONE]


@pytest.mark.parametrize("codec", cases(CODECS, 4, first=1))
def test_decompression_bombs(codec: Compression, tmp_path: Path) -> None:
    packed = zeros(codec, BOMB_BYTES)
    assert len(packed) < BOMB_BYTES // 15
    root = store(tmp_path, batch(packed, 1, base_offset=10, attributes=codec.value))
    check_bomb(root)


@pytest.mark.parametrize("codec", cases(CODECS[:3], 3, first=1))
def test_decompression_bombs_of_old(codec: Compression, tmp_path: Path) -> None:
    check_bomb(store(tmp_path, legacy(1, 10, None, zeros(codec, BOMB_BYTES), attributes=codec.value)))


def check_bomb(root: Path) -> None:
    with bounded(700 << 20, 60):
        result = command("cat", root, "--json")
    assert result.exit_code == 1
    assert good_lines(result.stdout) == [0, 20]
    assert "too large when decompressed" in result.stderr, result.stderr
