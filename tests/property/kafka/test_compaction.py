"""Compaction against a model: of every key the last record, tombstones and transactions by their
rules."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from logdex.kafka.batch.record import Record
from logdex.kafka.files.file_names import SNAPSHOT_SUFFIX
from logdex.kafka.log.cleaner.offset_map import ENTRY_SIZE_BYTES
from logdex.kafka.log.log import Log
from logdex.kafka.segment.segment_recovery import derive_segment
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.verify import verify
from tests.examples import examples

RETENTION_MS = 1000
KEYS = [b"", b"a", b"b", b"c", b"d" * 32, b"e" * 33, b"f" * 300, b"f" * 299 + b"g"]
PLAIN, IDEMPOTENT, OTHER_IDEMPOTENT, TXN, OTHER_TXN = -1, 10, 11, 20, 21


@pytest.fixture(autouse=True, scope="module")
def _quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        yield


@dataclass
class Data:
    """A data record as the model has it; `horizon_ms` once a tombstone has one."""

    offset: int
    key: bytes
    value: bytes | None
    txn: int | None = None
    horizon_ms: int | None = None


@dataclass
class Model:
    """`fates`: whether a transaction was committed, None while it is open. `there`: what is in the
    log."""

    now_ms: int = 10_000
    there: list[Data] = field(default_factory=list)
    fates: list[bool | None] = field(default_factory=list)
    open_txns: dict[int, int] = field(default_factory=dict)

    def is_aborted(self, data: Data) -> bool:
        return data.txn is not None and self.fates[data.txn] is False

    def compact(self, end: int) -> None:
        """Everything below `end` is clean now."""
        last = {data.key: data.offset for data in self.there if data.offset < end and not self.is_aborted(data)}
        kept = []
        for data in self.there:
            if data.offset < end:
                if self.is_aborted(data) or data.offset < last[data.key]:
                    continue
                if data.value is None and data.horizon_ms is not None and data.horizon_ms <= self.now_ms:
                    continue
                if data.value is None and data.horizon_ms is None:
                    data.horizon_ms = self.now_ms + RETENTION_MS
            kept.append(data)
        self.there = kept


VALUES = st.one_of(st.none(), st.binary(max_size=12))
APPENDS = st.tuples(
    st.just("append"),
    st.sampled_from([PLAIN, PLAIN, IDEMPOTENT, OTHER_IDEMPOTENT, TXN, OTHER_TXN]),
    st.lists(st.tuples(st.sampled_from(KEYS), VALUES), min_size=1, max_size=5),
    st.sampled_from(["none", "none", "lz4", "zstd", "gzip", "snappy"]),
)
ACTIONS = st.one_of(
    APPENDS,
    APPENDS,
    APPENDS,
    APPENDS,
    st.tuples(st.just("end"), st.sampled_from([TXN, OTHER_TXN]), st.booleans()),
    st.tuples(st.just("roll")),
    st.tuples(st.just("compact"), st.integers(0, 1500), st.sampled_from([1, 2, 3, 1000])),
    st.tuples(st.just("reopen"), st.booleans()),
)


class Runner:
    """Does actions to a log and to the model."""

    def __init__(self, path: str, config: LogConfig) -> None:
        self.path, self.config, self.model = path, config, Model()
        self.log = self._open()

    def _open(self) -> Log:
        return Log.open(self.path, self.config, clock_ms=lambda: self.model.now_ms)

    def run(self, action: tuple[object, ...]) -> None:
        getattr(self, f"do_{action[0]}")(*action[1:])

    def do_append(self, producer: int, pairs: list[tuple[bytes, bytes | None]], codec: str) -> None:
        model, first, txn = self.model, self.log.log_end_offset, None
        if producer in (TXN, OTHER_TXN):
            if producer not in model.open_txns:
                model.fates.append(None)
                model.open_txns[producer] = len(model.fates) - 1
            txn = model.open_txns[producer]
        records = [Record(key, value, model.now_ms + at) for at, (key, value) in enumerate(pairs)]
        if producer == PLAIN:
            self.log.append(records, compression=codec)
        else:
            self.log.append(
                records, compression=codec, producer_id=producer, producer_epoch=0, transactional=txn is not None
            )
        model.there += [Data(first + at, key, value, txn) for at, (key, value) in enumerate(pairs)]

    def do_end(self, producer: int, commit: bool) -> None:
        txn = self.model.open_txns.pop(producer, None)
        if txn is not None:
            self.model.fates[txn] = commit
        self.log.append_end_marker(producer, 0, commit=commit)

    def do_roll(self) -> None:
        self.log.roll()

    def do_compact(self, later_ms: int, slots: int) -> None:
        self.model.now_ms += later_ms
        stable, active = self.log.last_stable_offset, self.log.segments[-1].base_offset
        end = max(each.base_offset for each in self.log.segments if each.base_offset <= min(stable, active))
        report = self.log.compact(self.model.now_ms, dedupe_buffer_bytes=slots * ENTRY_SIZE_BYTES)
        assert report.interrupted is None
        assert report.end_offset == max(end, report.first_dirty_offset)
        self.model.compact(report.end_offset)
        self.check()

    def do_reopen(self, cleanly: bool) -> None:
        producers = {each: self.log.producer(each) for each in (IDEMPOTENT, OTHER_IDEMPOTENT, TXN, OTHER_TXN)}
        end = self.log.log_end_offset
        self.log.close()
        if not cleanly:  # nothing but the logs tells what the producers were at
            for path in Path(self.path).iterdir():
                if path.name.startswith(".logdex") or path.suffix == SNAPSHOT_SUFFIX or "recovery" in path.name:
                    path.unlink()
        self.log = self._open()
        assert self.log.log_end_offset == end
        for producer, before in producers.items():
            after = self.log.producer(producer)
            if before is not None and before.producer_epoch >= 0:
                assert after is not None  # one known by an emptied marker alone goes with it, as in the broker
                assert after.last_sequence == before.last_sequence
                if before.last_sequence >= 0:  # an emptied marker's epoch is not taken in again, as in the broker
                    assert after.producer_epoch == before.producer_epoch
        self.check()

    def check(self) -> None:
        model = self.model
        found = [(each.offset, each.key, each.value) for each in self.log.records()]
        assert found == [(each.offset, each.key, each.value) for each in model.there]
        committed = [(each.offset, each.key, each.value) for each in self.log.records(isolation="read_committed")]
        stable = self.log.last_stable_offset
        expected = [each for each in model.there if each.offset < stable and not model.is_aborted(each)]
        assert committed == [(each.offset, each.key, each.value) for each in expected]

    def check_files(self) -> None:
        self.log.close()
        report = verify(self.path, self.config)
        assert report.findings == []
        with self._open() as log:
            for segment in log.segments[:-1]:
                derived = derive_segment(segment.log.path, segment.base_offset, self.config.index_interval_bytes)
                assert derived.truncated_bytes == 0
                segment.txn_index.sanity_check()
            for segment, following in zip(log.segments, log.segments[1:], strict=False):
                assert segment.read_next_offset() <= following.base_offset
            names = {path.name for path in Path(self.path).iterdir()}
            assert not any(name.endswith((".cleaned", ".swap", ".deleted")) for name in names)


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(
    st.lists(ACTIONS, min_size=5, max_size=40),
    st.sampled_from([2000, 3000, 9000]),
    st.sampled_from([24, 60, 4096]),
    st.sampled_from([0, 100, 4096]),
)
def test_compaction_follows_the_model(
    actions: list[tuple[object, ...]], segment_bytes: int, index_bytes: int, interval_bytes: int
) -> None:
    config = LogConfig(
        segment_bytes=segment_bytes,
        segment_index_bytes=index_bytes,
        index_interval_bytes=interval_bytes,
        cleanup_policy=("compact",),
        delete_retention_ms=RETENTION_MS,
        max_message_bytes=1 << 20,
        segment_ms=1 << 40,
    )
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(f"{folder}/events-0", config)
        try:
            for action in actions:
                runner.run(action)
            runner.do_roll()
            runner.do_compact(0, 1000)
            runner.do_compact(2 * RETENTION_MS, 1000)
            runner.do_reopen(cleanly=True)
            runner.do_reopen(cleanly=False)
            runner.check_files()
        finally:
            runner.log.close()
