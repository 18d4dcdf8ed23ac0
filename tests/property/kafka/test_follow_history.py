"""Followers of a log to which anything happens between two polls: in the end they have what is in
the log.

What a follower returned from an offset on replaces what it returned from there on before, as its
documentation says.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.read.follow import LogFollower
from logdex.kafka.settings.log_config import LogConfig

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=150, retention_ms=-1)
COMPACTED = LogConfig(segment_bytes=900, index_interval_bytes=150, cleanup_policy=("compact",), retention_ms=-1)
NOW_MS = 1_700_000_000_000
SEEDS = [63, 64, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (*range(63), *range(65, 240)))]
"""Seed 63 has long aborted transactions, 64 a log that begins anew before what was read."""


class Followed:
    """A follower, and what it has returned by offset."""

    def __init__(self, path: Path, start: int, isolation: str) -> None:
        self.follower = LogFollower(path, start, isolation=isolation)
        self.start = start
        self.isolation = isolation
        self.got: dict[int, bytes | None] = {}
        self.cut_to = 1 << 62
        """The lowest end of the log since the last poll that returned records."""

    def poll(self) -> bool:
        records = self.follower.poll()
        for record in records:
            again = [offset for offset in self.got if offset >= record.offset]
            if again and self.isolation == "read_uncommitted":
                assert min(again) >= self.cut_to, f"{record.offset} was returned again, but the log was not cut there"
            for offset in again:
                del self.got[offset]
            self.got[record.offset] = record.value
        if records:
            self.cut_to = 1 << 62
        return bool(records)

    def check(self, log: Log) -> None:
        while self.poll():
            pass
        begin = log.log_start_offset
        wanted: dict[int, bytes | None] = {}
        while begin < log.log_end_offset:
            found = log.read(begin, isolation=self.isolation)
            if not found:
                break
            wanted |= {record.offset: record.value for record in found}
            begin = found[-1].offset + 1
        assert {offset: self.got.get(offset) for offset in wanted if offset >= self.start} == {
            offset: value for offset, value in wanted.items() if offset >= self.start
        }


class History:
    """Random changes of a log; records have different values."""

    def __init__(self, path: Path, seed: int, config: LogConfig) -> None:
        self.draw = random.Random(seed)
        self.log = Log.open(str(path), config)
        self.is_compacted = "compact" in config.cleanup_policy
        self.written = 0
        self.lowest_end = 1 << 62

    def records(self) -> list[Record]:
        found = []
        for _ in range(self.draw.randint(1, 4)):
            self.written += 1
            size = self.draw.choice((0, 0, 30))
            found.append(Record(b"k%d" % self.draw.randrange(6), b"%06d" % self.written + bytes(size), NOW_MS))
        return found

    def change(self, followed: list[Followed]) -> None:
        kinds = ["append"] * 8 + ["transaction"] * 2 + ["cut"] * 2 + ["roll", "delete", "compact", "far"]
        getattr(self, self.draw.choice(kinds))()
        for each in followed:
            each.cut_to = min(each.cut_to, self.lowest_end)
        self.lowest_end = 1 << 62

    def append(self) -> None:
        for _ in range(self.draw.choice((1, 1, 3, 12))):
            self.log.append(self.records())

    def transaction(self) -> None:
        with self.log.transaction(self.draw.randrange(3)) as transaction:
            transaction.append(self.records())
            self.log.append(self.records())
            if self.draw.random() < 0.3:
                transaction.abort()

    def cut(self) -> None:
        self.log.truncate_to(max(0, self.log.log_end_offset - self.draw.choice((0, 1, 2, 5, 9, 30))))
        self.lowest_end = self.log.log_end_offset

    def roll(self) -> None:
        self.log.roll()

    def delete(self) -> None:
        self.log.delete_records(self.draw.randint(self.log.log_start_offset, self.log.log_end_offset))

    def compact(self) -> None:
        if self.is_compacted:
            self.log.compact()

    def far(self) -> None:
        if self.draw.random() < 0.3:
            self.log.truncate_fully_and_start_at(self.log.log_end_offset + self.draw.randint(0, 20))


def run(tmp_path: Path, seed: int, config: LogConfig, steps: int = 60) -> None:
    path = tmp_path / "events-0"
    history = History(path, seed, config)
    followed = [
        Followed(path, start, isolation) for start in (0, 7) for isolation in ("read_uncommitted", "read_committed")
    ]
    with history.log as log:
        for _ in range(steps):
            history.change(followed)
            for each in followed:
                for _ in range(history.draw.choice((0, 0, 1, 1, 2, 9))):
                    each.poll()
            if history.draw.random() < 0.05:
                for each in followed:
                    each.check(log)
        for each in followed:
            each.check(log)
            each.follower.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_any_history(seed: int, tmp_path: Path) -> None:
    run(tmp_path, seed, CONFIG)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_history_with_compaction(seed: int, tmp_path: Path) -> None:
    run(tmp_path, seed, COMPACTED)
