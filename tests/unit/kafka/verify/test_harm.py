"""Each check of verify: one thing is harmed in a small log directory, and exactly that is found,
there."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from logdex.kafka.verify import CHECKS
from tests.examples import cases
from tests.unit.kafka.batch.batch_bytes import batch, legacy, record
from tests.unit.kafka.verify.harms import (
    END,
    INDEX,
    LOG,
    SECOND_BATCH,
    SNAPSHOT,
    TIME,
    TXN,
    Harm,
    add_batch,
    bit,
    cut,
    damaged_key_index,
    foreign_key_index,
    in_log,
    insert,
    old_key_index,
    other_sequence,
    put,
    remove,
    several,
    text,
    zeros_between,
)
from tests.unit.kafka.verify.log_harm import FIRST, PARTITION, THIRD, data, position_of, run, set_field

MS = 1_700_000_000_000
BAD_RECORD = batch(b"\x0e" + record(0, 0, b"k", b"v")[1:-1] + b"\x05", 1, base_offset=30, base_ms=MS, max_ms=MS)

HARMS: list[tuple[str, str, Harm, str, int]] = [
    ("batch-attributes", "an unknown bit", in_log(10, 5, "attributes", 0x100), LOG, position_of(10, 5)),
    ("batch-count", "too many", in_log(20, 5, "count", 2), f"{THIRD}.log", position_of(20, 5)),
    ("batch-crc", "a bit of a value", bit(LOG, SECOND_BATCH + 80), LOG, SECOND_BATCH),
    ("batch-crc", "a bit of the checksum", bit(LOG, SECOND_BATCH + 18), LOG, SECOND_BATCH),
    (
        "batch-header",
        "the magic of the last batch",
        bit(f"{THIRD}.log", position_of(20, 5) + 16, 4),
        f"{THIRD}.log",
        position_of(20, 5),
    ),
    ("batch-leader-epoch", "one batch's", bit(LOG, SECOND_BATCH + 15, 6), LOG, SECOND_BATCH),
    ("batch-leader-epoch", "a negative one", bit(LOG, SECOND_BATCH + 12, 7), LOG, SECOND_BATCH),
    ("batch-offset", "far up", bit(LOG, SECOND_BATCH + 4, 2), LOG, SECOND_BATCH),
    ("batch-offset", "below its neighbour", bit(LOG, position_of(10, 4) + 7, 4), LOG, position_of(10, 4)),
    (
        "batch-offset-delta",
        "negative",
        several(
            add_batch(data(30, 1, (-1, -1, -1), MS, 2)),
            lambda root: set_field(root / f"{THIRD}.log", position_of(20, 6), "last_offset_delta", -1),
            remove(f"{THIRD}.index"),
        ),
        f"{THIRD}.log",
        position_of(20, 6),
    ),
    ("batch-records", "a record that is not whole", add_batch(BAD_RECORD), f"{THIRD}.log", position_of(20, 6)),
    (
        "batch-records",
        "offsets fall",
        add_batch(batch(record(1, 0, b"k", b"v") + record(0, 0, b"k", b"v"), 2, base_offset=30)),
        f"{THIRD}.log",
        position_of(20, 6),
    ),
    (
        "batch-records",
        "an inner record of magic 1",
        add_batch(legacy(1, 30, b"k", b"no gzip", attributes=1)),
        f"{THIRD}.log",
        position_of(20, 6),
    ),
    (
        "batch-timestamp",
        "the largest is below the first",
        add_batch(batch(record(0, 0, b"k", b"v"), 1, base_offset=30, base_ms=MS, max_ms=5)),
        f"{THIRD}.log",
        position_of(20, 6),
    ),
    (
        "checkpoint-malformed",
        "a letter for a digit",
        text("replication-offset-checkpoint", "0\n1\nevents 0 x\n"),
        "replication-offset-checkpoint",
        4,
    ),
    (
        "checkpoint-offset",
        "the recovery point",
        text("recovery-point-offset-checkpoint", "0\n1\nevents 0 31\n"),
        "recovery-point-offset-checkpoint",
        4,
    ),
    (
        "checkpoint-offset",
        "the log start",
        text("log-start-offset-checkpoint", "0\n1\nevents 0 31\n"),
        "log-start-offset-checkpoint",
        4,
    ),
    (
        "checkpoint-offset",
        "the high watermark",
        text("replication-offset-checkpoint", "0\n1\nevents 0 31\n"),
        "replication-offset-checkpoint",
        4,
    ),
    (
        "checkpoint-offset",
        "a snapshot",
        lambda root: shutil.copy(root / SNAPSHOT, root / PARTITION / f"{99:020d}.snapshot") and None,
        f"{PARTITION}/{99:020d}.snapshot",
        0,
    ),
    (
        "file-name",
        "no number",
        lambda root: shutil.copy(root / LOG, root / PARTITION / "copy.log") and None,
        f"{PARTITION}/copy.log",
        0,
    ),
    ("key-index", "a bit", damaged_key_index, f"{FIRST}.keyindex", 64),
    ("key-index", "another log's", foreign_key_index, f"{FIRST}.keyindex", 0),
    ("key-index", "of the log before", old_key_index, f"{FIRST}.keyindex", 0),
    (
        "leader-epoch",
        "a line",
        text(f"{PARTITION}/leader-epoch-checkpoint", "0\n3\n0 0\n1 11\n2 20\n"),
        f"{PARTITION}/leader-epoch-checkpoint",
        8,
    ),
    (
        "leader-epoch",
        "a missing line",
        text(f"{PARTITION}/leader-epoch-checkpoint", "0\n2\n0 0\n1 10\n"),
        f"{PARTITION}/leader-epoch-checkpoint",
        8,
    ),
    (
        "leader-epoch-malformed",
        "the count",
        text(f"{PARTITION}/leader-epoch-checkpoint", "0\n4\n0 0\n1 10\n2 20\n"),
        f"{PARTITION}/leader-epoch-checkpoint",
        2,
    ),
    (
        "log-missing",
        "an index alone",
        lambda root: shutil.copy(root / INDEX, root / PARTITION / f"{15:020d}.index") and None,
        f"{PARTITION}/{15:020d}.index",
        0,
    ),
    ("meta-properties", "other text", text("meta.properties", "garbage"), "meta.properties", 7),
    ("meta-properties", "a number", text("meta.properties", "version=1\nnode.id=x\n"), "meta.properties", 10),
    ("offset-index-beyond-end", "a position", put(INDEX, 4, struct.pack(">i", 5000)), INDEX, 0),
    ("offset-index-missing", "the file", remove(INDEX), INDEX, 0),
    ("offset-index-offset", "a bit", bit(INDEX, 8 + 3), INDEX, 8),
    (
        "offset-index-order",
        "an entry twice",
        lambda root: put(INDEX, 8, (root / INDEX).read_bytes()[:8])(root),
        INDEX,
        8,
    ),
    ("offset-index-position", "a bit", bit(INDEX, 8 + 7), INDEX, 8),
    ("offset-index-size", "no whole entries", cut(INDEX, -1), INDEX, 24),
    (
        "partition-metadata",
        "the id",
        text(f"{PARTITION}/partition.metadata", "version: 0\ntopic_id: ?"),
        f"{PARTITION}/partition.metadata",
        11,
    ),
    (
        "partition-twice",
        "another number of digits",
        lambda root: shutil.copytree(root / PARTITION, root / "events-00") and None,
        "events-00",
        0,
    ),
    (
        "producer-epoch",
        "falls",
        several(add_batch(data(30, 1, (5, 1, 0), MS, 2) + data(31, 1, (5, 0, 0), MS, 2))),
        f"{THIRD}.log",
        position_of(20, 6) + len(data(30, 1, (5, 1, 0), MS, 2)),
    ),
    ("producer-sequence", "a gap", add_batch(data(30, 1, (5, 0, 19), MS, 2)), f"{THIRD}.log", position_of(20, 6)),
    (
        "producer-sequence",
        "a batch twice",
        add_batch(data(30, 2, (5, 0, 16), MS, 2)),
        f"{THIRD}.log",
        position_of(20, 6),
    ),
    ("producer-snapshot", "a bit", bit(SNAPSHOT, 30), SNAPSHOT, 2),
    ("producer-snapshot-entry", "a sequence", other_sequence, SNAPSHOT, 10 + 10),
    (
        "producer-state",
        "a marker of no kind",
        add_batch(
            batch(
                record(0, 0, struct.pack(">hh", 0, 9), struct.pack(">hi", 0, 3)),
                1,
                base_offset=30,
                attributes=0x30,
                producer=(9, 0, -1),
                leader_epoch=2,
            )
        ),
        f"{THIRD}.log",
        position_of(20, 6),
    ),
    ("segment-base-offset", "the first batch", bit(LOG, 7, 3), LOG, 0),
    ("offset-overflow", "a far offset", add_batch(data(20 + (1 << 31), 1, (-1, -1, -1), MS, 2)), f"{THIRD}.log", END),
    (
        "segment-overlap",
        "the last batch reaches into the next segment",
        several(in_log(10, 5, "last_offset_delta", 4), remove(INDEX), remove(TIME)),
        LOG,
        position_of(10, 5),
    ),
    (
        "stray-bytes",
        "before a batch",
        several(insert(LOG, position_of(10, 5), b"torn"), put(INDEX, 28, struct.pack(">i", position_of(10, 5) + 4))),
        LOG,
        position_of(10, 5),
    ),
    ("time-index-beyond-end", "a bit", bit(TIME, 8, 0), TIME, 0),
    ("time-index-end", "the last entry is not there", cut(TIME, -12), TIME, 36),
    ("time-index-end", "an empty file", cut(TIME, 0), TIME, 0),
    ("time-index-missing", "the file", remove(TIME), TIME, 0),
    ("time-index-offset", "a bit", bit(TIME, 11), TIME, 0),
    ("time-index-order", "an entry twice", lambda root: put(TIME, 12, (root / TIME).read_bytes()[:12])(root), TIME, 12),
    ("time-index-size", "no whole entries", cut(TIME, -1), TIME, 36),
    ("time-index-timestamp", "a bit", bit(TIME, 7), TIME, 0),
    ("torn-tail", "a cut", several(cut(f"{THIRD}.log", -5)), f"{THIRD}.log", position_of(20, 5)),
    ("txn-index-entry", "a bit", bit(TXN, 17), TXN, 0),
    (
        "txn-index-entry",
        "one too many",
        lambda root: (root / TXN).write_bytes((root / TXN).read_bytes() * 2) and None,
        TXN,
        34,
    ),
    ("txn-index-missing", "the file", remove(TXN), TXN, 0),
    ("txn-index-size", "no whole entries", cut(TXN, -1), TXN, 0),
    ("zero-hole", "a batch of zeros", zeros_between, LOG, SECOND_BATCH),
    (
        "zero-tail",
        "behind the last batch",
        insert(f"{THIRD}.log", position_of(20, 6), bytes(100)),
        f"{THIRD}.log",
        position_of(20, 6),
    ),
]


def test_every_check_is_harmed() -> None:
    assert {check for check, *_ in HARMS} == set(CHECKS) - {"unreadable", "unfinished-publication"}


@pytest.mark.parametrize(
    ("check", "harm", "name", "position"),
    cases([(check, harm, name, position) for check, _, harm, name, position in HARMS], 3),
    ids=[f"{check}: {what}" for check, what, *_ in HARMS],
)
def test_a_harm_is_found_where_it_is(check: str, harm: Harm, name: str, position: int, root: Path) -> None:
    harm(root)
    found = run(root).findings
    own = {"time-index-missing", "offset-index-missing"} - {check}  # taken away to make room for the harm
    told = [(f.check, f.path.removeprefix(f"{root}/"), f.position) for f in found if f.check not in own]
    assert told == [(check, name, position)], found
    assert all(f.mend and f.message for f in found)
    assert len(run(root, check).findings) == 1
