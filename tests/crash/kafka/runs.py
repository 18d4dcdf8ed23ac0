"""Seeded runs of a Kafka `Log` that end in a power cut, and what must be true of what is left."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from logdex.errors import IndexFullError, LogdexError
from logdex.io.env import Env
from logdex.kafka.batch.batch_writer import encode_batch
from logdex.kafka.batch.record import Compression, Record
from logdex.kafka.files.file_names import RECOVERY_POINT_CHECKPOINT
from logdex.kafka.log.log import Log
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.segment.segment_recovery import derive_segment
from logdex.kafka.segment.transaction_index import derive_transaction_index
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.state.leader_epochs import LeaderEpochs
from logdex.kafka.state.producer_snapshot import derive_producer_snapshot
from logdex.kafka.state.producer_state import ProducerStates, aborted_of
from logdex.kafka.verify import verify
from logdex.testing import FaultEnv, Killed

NAME = "events-0"
NOW_MS = 1_700_000_000_000


UNSURE = ("leader-epoch", "batch-leader-epoch")
"""Of logs that were cut back to their start and went on under lower epochs, as no controller has
them do: batches of higher ones still lie before the start."""


def clock() -> int:
    """Stands still: producers do not expire, segments do not age."""
    return NOW_MS


@dataclass(frozen=True)
class Batch:
    """A batch as the model knows it; `first` and `last` are offsets."""

    first: int
    last: int
    values: tuple[bytes | None, ...]


@dataclass
class Model:
    """What was done to the log. `batches[:kept]` must be there after a crash; what is there is a
    beginning of `batches`. Readers begin at an offset in `starts`."""

    batches: list[Batch] = field(default_factory=list)
    kept: int = 0
    starts: tuple[int, int] = (0, 0)
    begun_at: set[int] = field(default_factory=set)
    """Where an empty log may begin: after `truncate_fully_and_start_at`."""
    floor: int = 0
    """Where an open log ended, or was cut: the next batch comes there or later."""
    moved: bool = False
    """Whether the log's start was ever to move."""
    was_open: bool = False
    """Whether an open has ever returned: then the directory is there after a crash."""

    @property
    def end(self) -> int:
        return max(self.floor, self.batches[-1].last + 1 if self.batches else max(self.begun_at, default=0))


def make_config(chance: random.Random) -> LogConfig:
    return LogConfig(
        segment_bytes=chance.choice((700, 1200, 2500, 9000)),
        segment_index_bytes=chance.choice((60, 120, 600)),
        index_interval_bytes=chance.choice((0, 60, 300)),
        flush=chance.choice(("sync", "sync", "async")),
        retention_ms=-1,
        retention_bytes=chance.choice((-1, 1500)),
        segment_ms=1 << 40,
    )


class Run:
    """Random actions on one log; `model` is right before and after each, and allows for both."""

    def __init__(self, log: Log, model: Model, chance: random.Random) -> None:
        self.log = log
        self.model = model
        self.chance = chance
        self.is_sync = log.config.flush == "sync"
        self.epoch = log._core.leader_epoch

    def step(self) -> None:
        actions = [self.append] * 9 + [self.transactional] * 3 + [self.marker] * 2 + [self.columns]
        actions += [self.merge] * 3 + [self.client_batch, self.replica_batches]
        actions += [self.roll, self.flush, self.truncate, self.truncate, self.delete, self.retention, self.start_anew]
        self.chance.choice(actions)()

    def _appending(self, batches: list[Batch]) -> None:
        self.model.batches += batches

    def _appended(self) -> None:
        if self.is_sync:
            self.model.kept = len(self.model.batches)

    def _records(self) -> list[Record]:
        size = self.chance.choice((0, 5, 30, 120))
        return [
            Record(
                value=self.chance.randbytes(self.chance.randrange(size + 1)),
                timestamp_ms=NOW_MS + self.chance.randrange(-500, 500),
            )
            for _ in range(self.chance.randint(1, 4))
        ]

    def _batch(self, records: list[Record]) -> Batch:
        first = self.model.end
        return Batch(first, first + len(records) - 1, tuple(each.value for each in records))

    def append(self) -> None:
        records = self._records()
        if self.chance.random() < 0.1:
            self.epoch += 1
        self._appending([self._batch(records)])
        codec = self.chance.choice(("none", "lz4", "zstd"))
        if self.chance.random() < 0.3:
            self.log.append(records, compression=codec, producer_id=self.chance.randint(50, 53), producer_epoch=0)
        else:
            self.log.append(records, compression=codec, leader_epoch=self.epoch)
        self._appended()

    def transactional(self) -> None:
        records, producer = self._records(), self.chance.randint(1, 3)
        self._appending([self._batch(records)])
        self.log.append(records, producer_id=producer, producer_epoch=0, transactional=True)
        self._appended()

    def marker(self) -> None:
        first = self.model.end
        self._appending([Batch(first, first, ())])
        self.log.append_end_marker(self.chance.randint(1, 3), 0, commit=self.chance.random() < 0.4, timestamp_ms=NOW_MS)
        self._appended()

    def columns(self) -> None:
        import pyarrow as pa

        records = [record for _ in range(self.chance.randint(1, 5)) for record in self._records()]
        batches = []
        for start in range(0, len(records), 2):
            batches.append(self._batch(records[start : start + 2]))
            self.model.batches.append(batches[-1])  # one after the other: offsets follow
        table = pa.table(
            {
                "key": pa.array([None] * len(records), pa.binary()),
                "value": pa.array([each.value for each in records], pa.binary()),
                "timestamp_ms": pa.array([each.timestamp_ms for each in records], pa.int64()),
            }
        )
        self.log.append_columns(table, batch_records=2)
        self._appended()

    def client_batch(self) -> None:
        records = self._records()
        self._appending([self._batch(records)])
        self.log.append_batches(encode_batch(records, base_offset=0, compression=self.chance.choice(list(Compression))))
        self._appended()

    def replica_batches(self) -> None:
        """As a leader has them: perhaps behind a gap."""
        raw, gap = b"", self.chance.choice((0, 0, 3))
        for _ in range(self.chance.randint(1, 3)):
            records, first = self._records(), self.model.end + gap
            raw += encode_batch(records, base_offset=first, leader_epoch=self.epoch)
            self._appending([Batch(first, first + len(records) - 1, tuple(each.value for each in records))])
        self.log.append_batches(raw, assign_offsets=False)
        self._appended()

    def roll(self) -> None:
        self.log.roll()
        self.model.kept = len(self.model.batches)

    def flush(self) -> None:
        self.log.flush()
        self.model.kept = len(self.model.batches)

    def truncate(self) -> None:
        model = self.model
        if not model.batches:
            return
        place = max(0, len(model.batches) - self.chance.choice((1, 2, 4, 8, 16, 30)))
        target = model.batches[place].first
        low, high = model.starts
        model.kept, model.starts = min(model.kept, place), (min(low, target), high)
        self.log.truncate_to(target)
        del model.batches[place:]
        model.floor = end = self.log.log_end_offset  # before `target`, if offsets are missing there
        assert (model.batches[-1].last + 1 if model.batches else 0) <= end <= target
        model.kept = len(model.batches)
        model.starts = (min(low, end), min(high, end))
        if not model.batches:
            model.begun_at = {end}

    def delete(self) -> None:
        before = self.chance.randint(self.log.log_start_offset, self.log.high_watermark)
        low, _ = self.model.starts
        self.model.starts, self.model.moved = (low, before), True
        self.log.delete_records(before)
        self.model.starts = (before, before)

    def retention(self) -> None:
        low, _ = self.model.starts
        self.model.starts, self.model.moved = (low, self.model.end), True
        self.log.apply_retention(NOW_MS)
        self.model.starts = (self.log.log_start_offset,) * 2

    def merge(self) -> None:
        """One segment in the place of several, as a cleaning leaves it."""
        old = self.log.segments[:-1]
        if not old:
            return
        first = self.chance.randrange(len(old))
        old = old[first : first + self.chance.randint(1, 3)]
        try:
            new = self.log.open_cleaned_segment(old[0].base_offset)
            for segment in old:
                for window in BatchScanner().scan_file(segment.log.path):
                    new.append(window.data.tobytes(), window.columns)
                new.txn_index.append(*segment.txn_index.all_aborted_txns())
        except IndexFullError:
            new.close()
            return
        self.log.replace_segments([new], old)
        self.model.kept = max(self.model.kept, sum(batch.last < old[-1].base_offset for batch in self.model.batches))

    def start_anew(self) -> None:
        if self.chance.random() < 0.7:
            return
        offset = self.chance.randrange(0, self.model.end + 50)
        model = self.model
        low, high = model.starts
        model.kept, model.starts = 0, (min(low, offset), max(high, offset, model.end))
        model.begun_at.add(offset)
        model.moved = True
        self.log.truncate_fully_and_start_at(offset)
        model.batches.clear()
        model.floor = offset
        model.begun_at, model.starts = {offset}, (offset, offset)


def make_home(root: Path, chance: random.Random) -> None:
    """A place for a partition: a lone one's, or a broker's log directory, closed cleanly or not."""
    root.mkdir()
    if chance.random() < 0.4:
        (root / "meta.properties").write_bytes(b"version=1\ncluster.id=abc\nnode.id=1\n")
        if chance.random() < 0.7:
            (root / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":-1}')


def run_until_killed(env: FaultEnv, model: Model, config: LogConfig, chance: random.Random, *, steps: int = 30) -> None:
    """A process: it opens the log, works on it, closes it perhaps, and is killed at some time."""
    try:
        log = Log.open(f"{env.root}/{NAME}", config, env=env, clock_ms=clock)
        check_content(log, model)
        found, start = read_batches(log), log.log_start_offset
        model.batches, model.kept, model.starts = found, len(found), (start, start)
        model.floor, model.was_open = log.log_end_offset, True
        model.begun_at = set() if found else {log.log_end_offset}
        run = Run(log, model, chance)
        for _ in range(steps):
            run.step()
        if chance.random() < 0.5:
            log.close()
            model.kept = len(model.batches)
    except Killed:
        pass
    env.release()


def check_left(
    path: Path, model: Model, config: LogConfig, *, env: Env | None = None, raw: dict[int, set[bytes]] | None = None
) -> None:
    """Opens what a crash left: everything that was acknowledged is there, nothing that was not
    appended, and all that is derived is right. `raw`: bytes of batches as they were written, by
    their base offsets."""
    with Log.open(str(path), config, env=env or Env(), clock_ms=clock) as log:
        check_content(log, model)
        for segment in log.segments:
            check_indexes(segment, config, exact=segment.base_offset in log.load_report.recovered)
        check_state(log)
        if raw is not None:
            sure = {batch.first for batch in model.batches[: model.kept]}
            for base_offset, data in raw_batches(path):
                assert data in raw[base_offset] or base_offset not in sure, base_offset
        end, home = log.log_end_offset, log._core.home
    assert home._read(RECOVERY_POINT_CHECKPOINT) == end, (home._read(RECOVERY_POINT_CHECKPOINT), end)
    findings = [each for each in verify(str(path), config).findings if not model.moved or each.check not in UNSURE]
    assert not findings, findings[:3]
    left = [each.name for each in path.iterdir() if each.name.endswith((".cleaned", ".swap", ".tmp"))]
    assert not left, left


def raw_batches(path: Path) -> Iterator[tuple[int, bytes]]:
    """Base offset and bytes of the whole batches in a directory's .log files, of any suffix."""
    for file in path.glob("*.log*"):
        for window in BatchScanner().scan_file(str(file)):
            for at, size, base in zip(
                window.columns.position, window.columns.size, window.columns.base_offset, strict=True
            ):
                yield int(base), window.data[at : at + size].tobytes()


def read_batches(log: Log) -> list[Batch]:
    found = []
    position = log.log_start_offset
    while batches := log.read_batches(position):
        for batch in batches:
            values = () if batch.is_control else tuple(record.value for record in batch.records())
            found.append(Batch(batch.base_offset, batch.last_offset, values))
        position = batches[-1].last_offset + 1
    return found


def check_content(log: Log, model: Model) -> None:
    low, high = model.starts
    start = log.log_start_offset
    assert low <= start <= max(high, low), (start, model.starts)
    found = read_batches(log)
    expected = [batch for batch in model.batches if batch.last >= start]
    differ = [pair for pair in zip(found, expected, strict=False) if pair[0] != pair[1]]
    assert found == expected[: len(found)], differ[:2] or found[-1]
    kept = [batch for batch in model.batches[: model.kept] if batch.last >= start]
    assert len(found) >= len(kept), (found[-1:], kept[-1:])
    end = found[-1].last + 1 if found else None
    if end is not None:  # a segment that begins behind a gap may be there before its first batch
        ends = (end, max(end, model.floor), *(batch.first for batch in expected[len(found) :]))
        assert log.log_end_offset in ends, (log.log_end_offset, ends)
    else:
        assert log.log_end_offset in {start, *model.begun_at, *(batch.first for batch in model.batches)}
    assert log.recovery_point <= log.log_end_offset


def check_indexes(segment: LogSegment, config: LogConfig, *, exact: bool) -> None:
    """What the indexes of a segment say is so; those just derived say all that they should."""
    derived = derive_segment(segment.log.path, segment.base_offset, config.index_interval_bytes)
    assert derived.truncated_bytes == 0
    index, times = segment.offset_index, segment.time_index
    if exact:
        assert index.used_bytes.tobytes() == derived.offset_index
        assert times.used_bytes.tobytes() == derived.time_index
    headers = list(segment.log.headers())
    by_position = {header.position: header for header in headers}
    for slot in range(index.entries):
        entry = index.entry(slot)
        assert by_position[entry.position].last_offset == entry.offset
    for slot in range(times.entries):
        entry_ms, offset = times.entry(slot)
        assert any(header.last_offset == offset and header.max_timestamp_ms == entry_ms for header in headers)
    assert (np.diff([index.entry(slot).offset for slot in range(index.entries)]) > 0).all()


def check_state(log: Log) -> None:
    """Producers, aborted transactions and leader epochs follow from the log that is left."""
    if log.log_start_offset > 0 or log.segments[0].base_offset > 0:
        return
    states, epochs = ProducerStates(), LeaderEpochs()
    for segment in log.segments:
        aborted = []
        for window in BatchScanner().scan_file(segment.log.path):
            aborted += aborted_of(states.add(window.columns))
            epochs.add(window.columns)
        assert derive_transaction_index(segment.txn_index.all_aborted_txns()) == derive_transaction_index(aborted)
    states.map_end_offset = log.log_end_offset
    assert derive_producer_snapshot(log._core.producers.states) == derive_producer_snapshot(states)
    assert log.leader_epochs == epochs.entries
    assert log._core.producers.states.ongoing_transactions == states.ongoing_transactions


def go_on(path: Path, model: Model, config: LogConfig) -> None:
    """After a crash the log is a log like any other: appends, a clean close, a clean open."""
    with Log.open(str(path), config, clock_ms=clock) as log:
        before = read_batches(log)
        try:
            log.append([Record(value=b"after", timestamp_ms=NOW_MS)])
        except LogdexError as error:  # nothing may be left that refuses an append
            raise AssertionError(f"{error!r}") from error
        end = log.log_end_offset
    with Log.open(str(path), config, clock_ms=clock) as log:
        if log._core.home.is_lone:  # else the broker's mark has gone with the crash
            assert log.load_report.was_clean
            assert log.load_report.recovered == []
        assert log.log_end_offset == end
        after = read_batches(log)
        assert after[:-1] == before
        assert after[-1].values == (b"after",)
