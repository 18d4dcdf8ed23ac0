"""Compaction many times over: bulk loads with hot keys, tombstones, transactions, and loads between
that trust nothing.

The model is a few lines: of every key the last record that was not aborted. What is compared after
each load is the latest record of each key, the log end offset and what `verify` finds.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.files.file_names import LONE_CLEAN_MARK, RECOVERY_POINT_CHECKPOINT
from logdex.kafka.log.log import Log
from logdex.kafka.verify import verify
from tests.examples import cases, every

SEEDS_SLOW, PARTS = 3000, 4
NOW_MS = 1_700_000_000_000
SETTINGS = {"cleanup_policy": ("compact",), "index_interval_bytes": 256, "delete_retention_ms": 1000}


@dataclass
class History:
    """One log under random actions, and what must be in it."""

    path: Path
    chance: random.Random
    latest: dict[bytes, bytes | None] = field(default_factory=dict)
    now_ms: int = NOW_MS

    def __post_init__(self) -> None:
        self.segment_bytes = self.chance.choice((1000, 2000, 8192, 65536))
        self.hot = self.chance.choice((1, 3, 20, 300))
        self.log = self.open()

    def open(self) -> Log:
        return Log.open(str(self.path), clock_ms=lambda: self.now_ms, segment_bytes=self.segment_bytes, **SETTINGS)  # type: ignore[arg-type]

    def key(self) -> bytes:
        cold = self.chance.random() < 0.02
        return b"cold-%d" % self.chance.randrange(10_000) if cold else b"hot-%d" % self.chance.randrange(self.hot)

    def rows(self, count: int) -> list[tuple[bytes, bytes | None]]:
        chance = self.chance
        size = chance.choice((0, 10, 100))
        return [(self.key(), None if chance.random() < 0.05 else chance.randbytes(size)) for _ in range(count)]

    def bulk(self) -> None:
        rows = self.rows(self.chance.choice((1, 30, 300)))
        table = pa.table(
            {
                "key": pa.array([key for key, _ in rows], pa.binary()),
                "value": pa.array([value for _, value in rows], pa.binary()),
                "timestamp_ms": pa.array([self.now_ms] * len(rows), pa.int64()),
            }
        )
        self.log.append_columns(table, batch_records=min(self.chance.choice((1, 7, 100)), self.segment_bytes // 200))
        self.latest.update(rows)

    def transaction(self) -> None:
        rows = self.rows(self.chance.randint(1, 5))
        commit = self.chance.random() < 0.5
        transaction = self.log.transaction(self.chance.randint(1, 3), 0)
        transaction.append([Record(key, value, self.now_ms) for key, value in rows])
        if commit:
            transaction.commit()
            self.latest.update(rows)
        else:
            transaction.abort()

    def compact(self) -> None:
        if self.chance.random() < 0.7:
            self.log.roll()
        self.now_ms += self.chance.choice((0, 500, 2000))
        self.log.compact(self.now_ms, dedupe_buffer_bytes=self.chance.choice((24 * 40, 1 << 20)))

    def reload(self) -> None:
        """Opens the log anew, as after a crash that left no recovery point: every segment is
        recovered."""
        end = self.log.log_end_offset
        self.log.close()
        if self.chance.random() < 0.7:
            (self.path / LONE_CLEAN_MARK).unlink()
            (self.path / RECOVERY_POINT_CHECKPOINT).unlink(missing_ok=True)
        self.log = self.open()
        assert self.log.log_end_offset == end
        assert self.log.load_report.cut_bytes == 0

    def check(self) -> None:
        found: dict[bytes | None, bytes | None] = {}
        for record in self.log.records(isolation="read_committed"):
            found[record.key] = record.value
        wanted = {key: value for key, value in self.latest.items() if value is not None}
        assert {key: value for key, value in found.items() if value is not None} == wanted

    def run(self, steps: int) -> None:
        actions = [self.bulk] * 5 + [self.transaction, self.compact, self.compact, self.reload]
        for _ in range(steps):
            self.chance.choice(actions)()
        self.check()
        self.reload()
        self.check()
        self.log.close()
        report = verify(str(self.path))
        assert report.findings == []


def play(path: Path, seed: int) -> None:
    History(path, random.Random(seed)).run(steps=25)


@pytest.mark.parametrize("seed", cases([2, 10, 14, 39], 2))
def test_some_histories(tmp_path: Path, seed: int) -> None:
    play(tmp_path / "events-0", seed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_many_histories(tmp_path: Path, part: int) -> None:
    for seed in every(20, range(part, SEEDS_SLOW, PARTS)):
        play(tmp_path / f"seed-{seed}" / "events-0", seed)
