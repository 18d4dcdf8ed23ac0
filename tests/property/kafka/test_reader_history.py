"""Readers of logs to which anything happens between two calls: no record is missed, and none comes
that is no longer in the log."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from logdex.errors import OffsetOutOfRangeError
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.readers.log_reader import LogReader
from logdex.kafka.settings.log_config import LogConfig

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=150, retention_ms=-1)
COMPACTED = LogConfig(segment_bytes=900, index_interval_bytes=150, cleanup_policy=("compact",), retention_ms=-1)
NOW_MS = 1_700_000_000_000
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 120))]


class History:
    """Random changes of a log whose values are all different, and of a reader."""

    def __init__(self, path: Path, seed: int, config: LogConfig) -> None:
        self.draw = random.Random(seed)
        self.log = Log.open(str(path), config)
        self.is_compacted = "compact" in config.cleanup_policy
        self.written = 0
        self.reader = LogReader(path, "r")
        self.cut_to: int | None = None
        """The lowest offset before the reader's position to which the log was cut."""

    def append(self) -> None:
        for _ in range(self.draw.choice((1, 1, 3, 12))):
            records = []
            for _ in range(self.draw.randint(1, 4)):
                self.written += 1
                records.append(Record(b"k%d" % self.draw.randrange(6), b"%06d" % self.written, NOW_MS))
            self.log.append(records)

    def cut(self) -> None:
        self.log.truncate_to(max(0, self.log.log_end_offset - self.draw.choice((0, 1, 2, 5, 9, 30))))
        self.note_cut(self.log.log_end_offset)

    def note_cut(self, offset: int) -> None:
        if offset < self.reader.position:
            self.cut_to = offset if self.cut_to is None else min(offset, self.cut_to)

    def begin_anew(self) -> None:
        if self.draw.random() < 0.3:
            start = max(0, self.log.log_end_offset + self.draw.randint(-20, 20))
            self.log.truncate_fully_and_start_at(start)
            self.note_cut(start)

    def roll(self) -> None:
        self.log.roll()

    def delete(self) -> None:
        self.log.delete_records(self.draw.randint(self.log.log_start_offset, self.log.log_end_offset))

    def compact(self) -> None:
        if self.is_compacted and self.cut_to is None:  # it hides what a cut has changed
            self.log.compact()

    def poll(self) -> None:
        if self.must_refuse():
            return
        position, start = self.reader.position, self.log.log_start_offset
        found = {record.offset: record.value for record in self.reader.poll(self.draw.choice((1, 3, 500)))}
        there = self.there(max(position, start), self.reader.position)
        assert there.items() <= found.items()
        assert found == there or self.is_compacted  # what was read before a compaction may come

    def there(self, begin: int, end: int) -> dict[int, bytes | None]:
        there: dict[int, bytes | None] = {}
        while begin < end:
            for record in self.log.read(begin):
                if record.offset < end:
                    there[record.offset] = record.value
                begin = record.offset + 1
        return there

    def commit(self) -> None:
        if not self.must_refuse():
            self.reader.commit()

    def open_again(self) -> None:
        if not self.must_refuse():
            self.reader.commit()
            self.reader.close()
            if self.log.log_start_offset < self.reader.position:  # else no batch is before it to tell by
                for _ in range(self.draw.choice((0, 0, 1, 2))):
                    self.change()
            self.reader = LogReader(self.log.path, "r")
            if self.draw.random() < 0.5:
                self.must_refuse()

    def must_refuse(self) -> bool:
        """Whether the log was cut before the reader's position, in which case it says so and is
        placed where the log was cut."""
        if self.log.log_start_offset >= self.reader.position:
            self.reader.seek(self.log.log_start_offset)  # nothing was lost that is still there
            self.cut_to = None
        if self.cut_to is None:
            return False
        for _ in range(2):
            with pytest.raises(OffsetOutOfRangeError) as told:
                self.reader.poll(3)
        assert told.value.log_end_offset < self.reader.position
        self.reader.seek(self.cut_to)
        self.cut_to = None
        return True

    def change(self) -> None:
        kinds = [self.append] * 6 + [self.cut] * 2 + [self.roll, self.delete, self.compact, self.begin_anew]
        self.draw.choice(kinds)()

    def step(self) -> None:
        self.draw.choice([self.change, self.change, self.poll, self.poll, self.poll, self.commit, self.open_again])()


def run(tmp_path: Path, seed: int, config: LogConfig, steps: int = 150) -> None:
    history = History(tmp_path / "events-0", seed, config)
    with history.log:
        for _ in range(steps):
            history.step()
        history.reader.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_any_history(seed: int, tmp_path: Path) -> None:
    run(tmp_path, seed, CONFIG)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_history_with_compaction(seed: int, tmp_path: Path) -> None:
    run(tmp_path, seed, COMPACTED)
