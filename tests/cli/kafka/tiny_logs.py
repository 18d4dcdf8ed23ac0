"""Kafka log directories of some KiB with every file that one can have, so small that each byte can
be harmed."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from logdex.kafka.batch.batch_writer import encode_batch, encode_end_marker
from logdex.kafka.batch.record import Compression, Record, TimestampType
from logdex.kafka.files.checkpoints import TopicPartition, write_offset_checkpoint
from logdex.kafka.files.file_names import (
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
)
from logdex.kafka.files.metadata_files import CleanShutdown, MetaProperties, PartitionMetadata
from logdex.kafka.log.log import Log
from logdex.kafka.rebuild import rebuild

START_MS = 1_700_000_000_000
INTERVAL_BYTES = 60
SETTINGS: dict[str, Any] = {"index_interval_bytes": INTERVAL_BYTES, "segment_index_bytes": 120, "retention_ms": -1}
_TOPIC_ID = uuid.UUID(int=0x1234_5678_9ABC_DEF0_1234_5678_9ABC_DEF1)
KEY = "hot"


def clock_ms() -> int:
    """No producer is forgotten, nothing expires."""
    return START_MS + 60_000


def record(place: int, key: bytes | None = b"hot", value: bytes | None = b"", headers: bool = False) -> Record:
    """The record made `place`-th."""
    value = b"value %d" % place if value == b"" else value
    named = (("trace", b"%d" % place), ("none", None)) if headers else ()
    return Record(key, value, START_MS + 1000 * place, named)


def _events(path: Path) -> None:
    """Magic 2: every codec, headers, nulls, transactions that were committed and aborted,
    idempotent batches; three segments and two leader epochs."""
    with Log.open(str(path), clock_ms=clock_ms, segment_bytes=1 << 20, **SETTINGS) as log:
        for place, codec in enumerate(Compression):
            two = [record(2 * place), record(2 * place + 1, b"k-%d" % place, headers=place % 2 == 0)]
            log.append(two, compression=codec, leader_epoch=3)
        log.append([record(10, value=None), record(11, None)], leader_epoch=3)
        log.roll()
        for producer, commit in ((7, True), (8, False)):
            data = [record(12 + 2 * producer), record(13 + 2 * producer, b"txn")]
            log.append(data, producer_id=producer, producer_epoch=0, transactional=True, leader_epoch=4)
            log.append_end_marker(producer, 0, commit=commit, timestamp_ms=START_MS + 30_000)
        log.append(record(31), producer_id=9, producer_epoch=1, sequence=0, leader_epoch=4)
        log.roll()
        for producer in (7, 8):
            log.append(
                record(32 + producer), producer_id=producer, producer_epoch=1, transactional=True, leader_epoch=5
            )
        log.append_end_marker(7, 1, commit=False, timestamp_ms=START_MS + 45_000)
        log.append(record(50), producer_id=9, producer_epoch=1, compression="lz4", leader_epoch=5)


def _old(path: Path) -> None:
    """Magic 0 and 1, plain and compressed."""
    at = 0
    with Log.open(str(path), clock_ms=clock_ms, **SETTINGS) as log:
        for magic, codec in ((0, 0), (0, 1), (0, 3), (1, 0), (1, 2), (1, 3), (1, 1)):
            raw = encode_batch(
                [record(at), record(at + 1, None)],
                base_offset=at,
                compression=Compression(codec),
                magic=magic,
                timestamp_type=TimestampType.CREATE_TIME,
            )
            log.append_batches(raw, assign_offsets=False)
            at += 2


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _offsets(path: Path) -> None:
    """Commits, a deleted one, a group's metadata, a type of the newer groups."""
    commits = [
        (b"\0\1" + _text("group") + _text("events") + struct.pack(">i", 0), struct.pack(">hqi", 3, 11, 4) + _text("m")),
        (b"\0\1" + _text("group") + _text("old") + struct.pack(">i", 0), struct.pack(">hqi", 3, 7, -1) + _text("")),
    ]
    records = [Record(key, value + struct.pack(">q", START_MS), START_MS) for key, value in commits]
    records.append(Record(commits[1][0], None, START_MS + 1))
    member = _text("id") + struct.pack(">h", -1) + _text("client") + _text("/host") + struct.pack(">ii", 1, 2)
    member += struct.pack(">i", 2) + b"ab" + struct.pack(">i", 1) + b"c"
    group = struct.pack(">h", 3) + _text("consumer") + struct.pack(">i", 5) + _text("range") + _text("id")
    group += struct.pack(">qi", START_MS, 1) + member
    records += [Record(b"\0\2" + _text("group"), group, START_MS + 2), Record(b"\0\3" + _text("g"), b"\0", START_MS)]
    with Log.open(str(path), clock_ms=clock_ms, **SETTINGS) as log:
        log.append(records[:3], leader_epoch=0)
        log.append(records[3:], compression="zstd", leader_epoch=0)


def usual(root: Path) -> Path:
    """A directory whose broker ended well: `events-0`, `old-0`, `__consumer_offsets-0`, key
    indexes, all small files."""
    root.mkdir(parents=True)
    MetaProperties(1, "AAAAAAAAAAAAAAAAAAAAAA", 1, "BBBBBBBBBBBBBBBBBBBBBB").write(str(root / META_PROPERTIES))
    for name, fill in {"events-0": _events, "old-0": _old, "__consumer_offsets-0": _offsets}.items():
        fill(root / name)
        PartitionMetadata(_TOPIC_ID).write(str(root / name / PARTITION_METADATA))
    _add_key_indexes(root)
    names = [TopicPartition("events", 0), TopicPartition("old", 0), TopicPartition("__consumer_offsets", 0)]
    for name in (HIGH_WATERMARK_CHECKPOINT, CLEANER_CHECKPOINT):
        write_offset_checkpoint(str(root / name), dict.fromkeys(names, 5))
    write_offset_checkpoint(str(root / LOG_START_CHECKPOINT), {names[1]: 1})
    CleanShutdown(7).write(str(root / CLEAN_SHUTDOWN))
    (root / ".lock").unlink(missing_ok=True)
    return root


def _add_key_indexes(root: Path) -> None:
    made = root.parent / "made"
    rebuild(str(root), str(made), index_interval_bytes=INTERVAL_BYTES, key_index=True, sync=False)
    for path in made.glob("events-*/*.keyindex"):
        (root / path.relative_to(made)).write_bytes(path.read_bytes())


def odd(root: Path) -> Path:
    """A directory whose broker was killed: preallocated indexes, compacted batches (gaps, an empty
    one, a delete horizon), LogAppendTime, an open transaction, a last sequence that wrapped,
    headers that are not UTF-8, room behind the log's end."""
    root.mkdir(parents=True)
    MetaProperties(0, None, 1, None).write(str(root / META_PROPERTIES))
    path = root / "events-0"
    options: dict[str, Any] = {"producer_id": 5, "producer_epoch": 2, "is_transactional": True, "leader_epoch": 1}
    gaps = [Record(b"hot", b"a", START_MS, offset=100), Record(b"k", b"b" * 20, START_MS + 5, offset=104)]
    wrapped = [Record(b"hot", b"w", START_MS + 50, offset=150 + k) for k in range(2)]
    sent = [
        encode_batch(gaps, base_offset=99, keep_offsets=True, last_offset=108, compression=Compression.GZIP),
        encode_batch([], base_offset=110, last_offset=114, max_timestamp_ms=START_MS + 9, delete_horizon_ms=1 << 41),
        encode_batch(
            [record(20, headers=True), Record(None, b"", 0, ((b"\xff", b"x" * 70),))],
            base_offset=120,
            timestamp_type=TimestampType.LOG_APPEND_TIME,
            max_timestamp_ms=START_MS + 30,
            compression=Compression.SNAPPY,
        ),
        encode_batch(wrapped, base_offset=150, base_sequence=(1 << 31) - 1, **options),
        encode_end_marker(
            False,
            offset=152,
            producer_id=5,
            producer_epoch=2,
            coordinator_epoch=1,
            timestamp_ms=START_MS + 60,
            leader_epoch=1,
        ),
        encode_batch([record(70)], base_offset=160, base_sequence=1, compression=Compression.ZSTD, **options),
    ]
    with Log.open(str(path), clock_ms=clock_ms, **SETTINGS) as log:
        log.truncate_fully_and_start_at(99)
        for raw in sent[:3]:
            log.append_batches(raw, assign_offsets=False)
        log.roll()
        for raw in sent[3:]:
            log.append_batches(raw, assign_offsets=False)
    for suffix in (".index", ".timeindex"):
        last = max(path.glob(f"*{suffix}"))
        last.write_bytes(last.read_bytes().ljust(120, b"\0"))
    last = max(path.glob("*.log"))
    last.write_bytes(last.read_bytes() + bytes(40))
    (root / ".lock").unlink(missing_ok=True)
    return root


TINY_KAFKA: dict[str, Callable[[Path], Path]] = {"usual": usual, "odd": odd}
