"""A small Kafka log directory in which every kind of derived file says something, and ways to harm
it."""

from __future__ import annotations

import struct
from pathlib import Path

from logdex.jobs.findings import VerifyReport
from logdex.kafka.files.metadata_files import MetaProperties
from logdex.kafka.recover import recover
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.verify import verify
from logdex.layout.kafka import RECORD_BATCH
from logdex.primitives.crc32c import crc32c_by_table
from tests.unit.kafka.batch.batch_bytes import batch, record

CONFIG = LogConfig(index_interval_bytes=100)
PARTITION = "events-0"
SEGMENTS = (0, 10, 20)
ABORT, COMMIT = 0, 1
TRANSACTIONAL, CONTROL = 0x10, 0x20
FIRST, SECOND, THIRD = (f"{PARTITION}/{base:020d}" for base in SEGMENTS)


def marker(base_offset: int, producer: int, kind: int, at_ms: int, leader_epoch: int) -> bytes:
    """A batch with one end-of-transaction marker."""
    payload = record(0, 0, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 3))
    return batch(
        payload,
        1,
        base_offset=base_offset,
        attributes=TRANSACTIONAL | CONTROL,
        base_ms=at_ms,
        max_ms=at_ms,
        producer=(producer, 0, -1),
        leader_epoch=leader_epoch,
    )


def data(base_offset: int, count: int, producer: tuple[int, int, int], at_ms: int, leader_epoch: int) -> bytes:
    """A batch of `count` records; producer 9 writes in transactions."""
    payload = b"".join(record(n, n, b"key", b"x" * 20) for n in range(count))
    return batch(
        payload,
        count,
        base_offset=base_offset,
        attributes=TRANSACTIONAL if producer[0] == 9 else 0,
        base_ms=at_ms,
        max_ms=at_ms + count - 1,
        producer=producer,
        leader_epoch=leader_epoch,
    )


def batches(base: int) -> list[bytes]:
    """The batches of the segment at `base`: offsets base to base + 9, an aborted transaction at
    base + 4 to 6."""
    epoch, ms = base // 10, 1_700_000_000_000 + 1000 * base
    step = base // 10
    return [
        data(base, 2, (5, 0, step * 6), ms, epoch),
        data(base + 2, 2, (5, 0, step * 6 + 2), ms + 100, epoch),
        data(base + 4, 2, (9, 0, step * 2), ms + 200, epoch),
        marker(base + 6, 9, ABORT, ms + 300, epoch),
        data(base + 7, 2, (5, 0, step * 6 + 4), ms + 400, epoch),
        data(base + 9, 1, (-1, -1, -1), ms + 500, epoch),
    ]


def position_of(base: int, number: int) -> int:
    """Where batch `number` of a segment begins."""
    return sum(map(len, batches(base)[:number]))


def make_log_dir(target: Path) -> Path:
    """A clean log directory with one partition of three segments, whose derived files Logdex
    wrote."""
    raw = target / "raw"
    (raw / PARTITION).mkdir(parents=True)
    for base in SEGMENTS:
        (raw / PARTITION / f"{base:020d}.log").write_bytes(b"".join(batches(base)))
    (raw / PARTITION / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA")
    (raw / "meta.properties").write_bytes(MetaProperties(1, "cluster", 1, "AAAAAAAAAAAAAAAAAAAAAA").to_bytes())
    (raw / "replication-offset-checkpoint").write_text("0\n1\nevents 0 30\n")
    (raw / "cleaner-offset-checkpoint").write_text("0\n1\nevents 0 10\n")
    report = recover(str(raw), str(target / "logs"), CONFIG)
    assert not report.lossy
    return target / "logs"


def run(root: Path, *checks: str) -> VerifyReport:
    """`verify` of the directory, of some checks or of all."""
    return verify(str(root), CONFIG, checks=checks or None)


def flip(path: Path, position: int, bit: int = 0) -> None:
    """Flips one bit."""
    raw = bytearray(path.read_bytes())
    raw[position] ^= 1 << bit
    path.write_bytes(raw)


def set_field(path: Path, position: int, field: str, value: int) -> None:
    """Sets a field of the batch at `position` and makes its checksum right again."""
    raw = bytearray(path.read_bytes())
    place = next(each for each in RECORD_BATCH.fields if each.name == field)
    struct.pack_into(">" + place.format, raw, position + place.offset, value)
    make_crc_right(raw, position)
    path.write_bytes(raw)


def make_crc_right(raw: bytearray, position: int) -> None:
    """Stores the checksum that the batch at `position` has."""
    size = 12 + struct.unpack_from(">i", raw, position + 8)[0]
    crc = crc32c_by_table(bytes(raw[position + 21 : position + size]))
    struct.pack_into(">I", raw, position + 17, crc)
