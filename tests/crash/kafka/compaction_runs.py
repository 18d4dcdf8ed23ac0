"""Seeded runs of a compacted Kafka `Log` that end in a power cut, and what must be true of what is
left."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from logdex.kafka.batch.record import Record
from logdex.kafka.log.cleaner.offset_map import ENTRY_SIZE_BYTES
from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.verify import verify
from logdex.testing import Fault, FaultEnv, Killed
from tests.crash.kafka.runs import NAME, NOW_MS, check_indexes, clock

RETENTION_MS = 1000
Row = tuple[int, bytes | None, bytes | None]
"""Offset, key, value."""


@dataclass
class Model:
    """`there`: what is in the log; while an action is under way, also what it may not have reached.
    `sure` of it are in the log in any case, as far as it goes: to `kept_end` at least."""

    there: set[Row] = field(default_factory=set)
    sure: set[Row] = field(default_factory=set)
    txn_of: dict[int, int] = field(default_factory=dict)
    fates: list[bool | None] = field(default_factory=list)
    open_txns: dict[int, int] = field(default_factory=dict)
    horizons: dict[int, int] = field(default_factory=dict)
    kept_end: int = 0
    start_max: int = 0

    def is_aborted(self, offset: int) -> bool:
        return offset in self.txn_of and self.fates[self.txn_of[offset]] is False

    def compacted(self, end: int, rewritten_end: int, now_ms: int) -> set[Row]:
        """What is there once everything below `end` is clean, in segments that end at
        `rewritten_end`."""
        rows = [row for row in sorted(self.there) if row[0] < end and not self.is_aborted(row[0])]
        last = {key: offset for offset, key, _ in rows}
        kept = {row for row in self.there if row[0] >= end and not (row[0] < rewritten_end and self.is_aborted(row[0]))}
        for row in rows:
            offset, key, value = row
            is_expired = value is None and self.horizons.get(offset, now_ms + 1) <= now_ms
            if last[key] == offset and not is_expired:
                kept.add(row)
        return kept

    def cut(self, offset: int) -> None:
        self.there = {row for row in self.there if row[0] < offset}
        self.sure = set(self.there)
        self.horizons = {at: horizon for at, horizon in self.horizons.items() if at < offset}
        self.txn_of = {at: txn for at, txn in self.txn_of.items() if at < offset}


class CompactionRun:
    """Random actions on one log with keys, compactions among them."""

    def __init__(self, log: Log, model: Model, chance: random.Random) -> None:
        self.log, self.model, self.chance = log, model, chance
        self.now_ms = NOW_MS

    def step(self) -> None:
        actions = [self.append] * 8 + [self.transactional] * 3 + [self.marker] * 3
        actions += [self.roll] * 3 + [self.flush, self.truncate, self.delete] + [self.compact] * 4
        self.chance.choice(actions)()

    def _records(self) -> list[Record]:
        chance = self.chance
        return [
            Record(
                key=b"key-%d" % chance.randrange(8),
                value=None if chance.random() < 0.2 else chance.randbytes(chance.randrange(60)),
                timestamp_ms=NOW_MS + chance.randrange(-500, 500),
            )
            for _ in range(chance.randint(1, 4))
        ]

    def _append(self, records: list[Record], **options: object) -> None:
        first = self.log.log_end_offset
        rows = {(first + at, record.key, record.value) for at, record in enumerate(records)}
        self.model.there |= rows
        self.model.sure |= rows
        codec = self.chance.choice(("none", "lz4", "zstd"))
        self.log.append(records, compression=codec, **options)  # type: ignore[arg-type]
        self._appended()

    def _appended(self) -> None:
        if self.log.config.flush == "sync":
            self.model.kept_end = self.log.log_end_offset

    def append(self) -> None:
        if self.chance.random() < 0.4:
            self._append(self._records(), producer_id=self.chance.randint(50, 52), producer_epoch=0)
        else:
            self._append(self._records())

    def transactional(self) -> None:
        model, producer, records = self.model, self.chance.randint(1, 3), self._records()
        if producer not in model.open_txns:
            model.fates.append(None)
            model.open_txns[producer] = len(model.fates) - 1
        for at in range(len(records)):
            model.txn_of[self.log.log_end_offset + at] = model.open_txns[producer]
        self._append(records, producer_id=producer, producer_epoch=0, transactional=True)

    def marker(self) -> None:
        producer, commit = self.chance.randint(1, 3), self.chance.random() < 0.5
        txn = self.model.open_txns.pop(producer, None)
        if txn is not None:
            self.model.fates[txn] = commit  # or it is open, if a crash takes the marker
        self.log.append_end_marker(producer, 0, commit=commit, timestamp_ms=NOW_MS)
        self._appended()

    def roll(self) -> None:
        self.log.roll()
        self.model.kept_end = self.log.log_end_offset

    def flush(self) -> None:
        self.log.flush()
        self.model.kept_end = self.log.log_end_offset

    def truncate(self) -> None:
        """Only behind what was ever aborted or committed, so that the fates of transactions stay
        what they are."""
        log, model = self.log, self.model
        undecided = self.log.last_stable_offset
        offset = max(undecided, log.log_end_offset - self.chance.randint(1, 6))
        if offset != undecided and offset < log.log_end_offset and not model.open_txns:
            batches = log.read_batches(offset)
            if batches[0].base_offset < offset or any(batch.is_control for batch in batches):
                return
            model.kept_end = min(model.kept_end, offset)
            model.sure = {row for row in model.sure if row[0] < offset}
            log.truncate_to(offset)
            model.cut(offset)
            model.kept_end = offset

    def delete(self) -> None:
        before = self.chance.randint(self.log.log_start_offset, self.log.high_watermark)
        self.model.start_max = max(self.model.start_max, before)
        self.log.delete_records(before)

    def compact(self) -> None:
        log, model = self.log, self.model
        self.now_ms += self.chance.choice((0, 600, 1500))
        active = log.segments[-1]
        bound = min(log.last_stable_offset, active.base_offset)
        end = max((each.base_offset for each in log.segments if each.base_offset <= bound), default=0)
        # where the log's start lies in the segment that cannot be cleaned yet, it is written anew,
        # but for its keys
        clean_end = max(end, log.log_start_offset)
        rewritten_end = min(
            each.base_offset for each in log.segments if each.base_offset >= clean_end or each is active
        )
        model.sure = model.compacted(end, rewritten_end, self.now_ms)
        slots = self.chance.choice((2, 5, 1000))
        report = log.compact(self.now_ms, dedupe_buffer_bytes=slots * ENTRY_SIZE_BYTES)
        assert report.interrupted is None
        model.there = set(model.sure)
        for offset, _, value in model.there:
            if value is None and offset < rewritten_end:
                model.horizons.setdefault(offset, self.now_ms + RETENTION_MS)


def make_config(chance: random.Random) -> LogConfig:
    return LogConfig(
        segment_bytes=chance.choice((700, 1200, 2500, 9000)),
        segment_index_bytes=chance.choice((60, 120, 600)),
        index_interval_bytes=chance.choice((0, 60, 300)),
        flush=chance.choice(("sync", "async")),
        cleanup_policy=("compact",),
        delete_retention_ms=RETENTION_MS,
        segment_ms=1 << 40,
    )


def run_until_cut(root: Path, seed: int, *, steps: int = 30) -> tuple[FaultEnv, Model, LogConfig]:
    """Random actions until the process is killed at a random operation."""
    chance = random.Random(seed)
    config, model = make_config(chance), Model()
    root.mkdir()
    env = FaultEnv(str(root), Fault(chance.randrange(1, 900)))
    try:
        log = Log.open(str(root / NAME), config, env=env, clock_ms=clock)
        run = CompactionRun(log, model, chance)
        for _ in range(steps):
            run.step()
        log.close()
        model.kept_end = log.log_end_offset
    except Killed:
        pass
    env.release()
    return env, model, config


def rows_of(log: Log, isolation: str = "read_uncommitted") -> list[Row]:
    return [(each.offset, each.key, each.value) for each in log.records(isolation=isolation)]


def check_left(path: Path, model: Model, config: LogConfig) -> None:
    """Opens what a crash left: what is to be there is, and nothing else; all that is derived is
    right."""
    with Log.open(str(path), config, clock_ms=clock) as log:
        found, start, end = rows_of(log), log.log_start_offset, log.log_end_offset
        assert start <= model.start_max
        assert end >= model.kept_end
        assert [row[0] for row in found] == sorted({row[0] for row in found})
        assert set(found) <= model.there, sorted(set(found) - model.there)[:3]
        decided = [row for row in found if row[0] < log.last_stable_offset and not model.is_aborted(row[0])]
        assert rows_of(log, "read_committed") == decided
        missing = {row for row in model.sure if start <= row[0] < end} - set(found)
        assert not missing, sorted(missing)[:3]
        for segment in log.segments:
            check_indexes(segment, config, exact=segment.base_offset in log.load_report.recovered)
    assert verify(str(path), config).findings == []
    assert not [each.name for each in path.iterdir() if each.name.endswith((".cleaned", ".swap"))]


def go_on(path: Path, config: LogConfig) -> None:
    """After a crash the log can be appended to, compacted, closed and opened cleanly."""
    with Log.open(str(path), config, clock_ms=clock) as log:
        log.append([Record(key=b"after", value=b"after", timestamp_ms=NOW_MS)])
        log.roll()
        log.compact(NOW_MS)
        rows = rows_of(log)
    with Log.open(str(path), config, clock_ms=clock) as log:
        assert log.load_report.was_clean
        assert rows_of(log) == rows
    assert verify(str(path), config).findings == []
