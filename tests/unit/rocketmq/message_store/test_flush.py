"""``flush="sync"``: threads share fsyncs, none waits for another's for ever, and a dispatch that
stands still holds up no put."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from logdex.io.env import Env
from logdex.rocketmq import Message, MessageStore, PutMessageResult, PutMessageStatus
from logdex.rocketmq.message_store.background import Background
from tests.unit.rocketmq.message_store.open_stores import open_store


class SlowDisk(Env):
    """An fsync of the log waits while `holds` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on, self.begun = threading.Event(), threading.Event()
        self.holds = False
        self.syncs = 0

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        if kind == "sync" and "/commitlog/" in path:
            self.syncs += 1
            if self.holds:
                self.begun.set()
                assert self.goes_on.wait(60)
        with super().operation(kind, path):
            yield


def put_slowly(store: MessageStore, env: SlowDisk, found: list[PutMessageResult]) -> threading.Thread:
    """A thread in whose fsync the disk stands still."""
    env.holds = True
    thread = threading.Thread(target=lambda: found.append(store.put_message(Message("orders", b"slow", queue_id=0))))
    thread.start()
    assert env.begun.wait(60)
    return thread


@pytest.mark.parametrize("way", ["one", "batch", "half", "columns", "commit", "rollback"])
def test_who_waits_too_long_for_anothers_fsync_is_told(way: str, tmp_path: Path) -> None:
    env, found = SlowDisk(), list[PutMessageResult]()
    with open_store(tmp_path / "store", flush="sync", sync_flush_timeout_ms=20, env=env) as store:
        half = store.put_half(Message("orders", queue_id=0))  # makes the topics
        store.dispatch()
        message = Message("orders", b"late", queue_id=0)
        put: dict[str, Callable[[], PutMessageResult]] = {
            "one": lambda: store.put_message(message),
            "batch": lambda: store.put_messages([message]),
            "half": lambda: store.put_half(message),
            "columns": lambda: store.put_columns(pa.table({"topic": ["orders"], "queue_id": [0]})),
            "commit": lambda: store.end_transaction(half, commit=True),
            "rollback": lambda: store.end_transaction(half, commit=False),
        }
        thread = put_slowly(store, env, found)
        late = put[way]()
        assert (late.status, late.is_stored) == (PutMessageStatus.FLUSH_DISK_TIMEOUT, True)
        not_waiting = store.put_message(Message("orders", queue_id=0, wait_store_msg_ok=False))
        assert not_waiting.status is PutMessageStatus.PUT_OK
        env.holds = False
        env.goes_on.set()
        thread.join()
        assert found[0].status is PutMessageStatus.PUT_OK
        assert store.put_message(Message("orders", queue_id=0)).status is PutMessageStatus.PUT_OK
        assert store.stats.flush_behind_bytes == 0


def test_many_threads_share_an_fsync(tmp_path: Path) -> None:
    env, found = SlowDisk(), list[PutMessageResult]()
    with open_store(tmp_path / "store", flush="sync", env=env) as store:
        store.create_topic("orders")
        first = put_slowly(store, env, found)
        before = env.syncs
        threads = [
            threading.Thread(target=lambda: found.append(store.put_message(Message("orders", b"x", queue_id=1))))
            for _ in range(12)
        ]
        for thread in threads:
            thread.start()
        while store.stats.puts < 13:
            pass
        env.holds = False
        env.goes_on.set()
        for thread in (first, *threads):
            thread.join()
        assert env.syncs - before == 1  # that of all the threads that waited
        assert sorted(put.queue_offset for put in found if put.queue_id == 1) == list(range(12))
        assert {put.status for put in found} == {PutMessageStatus.PUT_OK}


def test_large_tables_are_flushed_before_the_interval_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logdex.rocketmq.message_store.core.FLUSH_AT_BYTES", 10_000)
    table = pa.table({"topic": ["orders"] * 100, "body": [b"x" * 100] * 100})
    slow = {"flush_interval_commit_log_ms": 3_600_000, "flush_consume_queue_thorough_interval_ms": 3_600_000}
    with open_store(tmp_path / "store", background=True, mapped_file_size_commit_log=1 << 20, **slow) as store:
        assert store.put_columns(table.slice(0, 10)).is_stored
        time.sleep(0.02)
        assert store.stats.flush_behind_bytes > 0
        assert store.put_columns(table).is_stored
        until_s = time.monotonic() + 60
        while store.stats.flush_behind_bytes and time.monotonic() < until_s:
            time.sleep(0.005)
        assert store.stats.flush_behind_bytes == 0


def test_large_tables_are_dispatched_before_the_interval_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logdex.rocketmq.message_store.core.DISPATCH_AT_BYTES", 10_000)
    table = pa.table({"topic": ["orders"] * 100, "body": [b"x" * 100] * 100})
    slow = {"reput_interval_ms": 3_600_000}
    with open_store(tmp_path / "store", background=True, mapped_file_size_commit_log=1 << 20, **slow) as store:
        for _ in range(3):
            assert store.put_columns(table.slice(0, 10)).is_stored
            time.sleep(0.02)
            assert store.dispatch_behind_bytes > 0
            assert store.put_columns(table).is_stored
            until_s = time.monotonic() + 60
            while store.dispatch_behind_bytes and time.monotonic() < until_s:
                time.sleep(0.005)
            assert store.dispatch_behind_bytes == 0


def test_a_dispatch_that_stands_still_holds_up_no_put(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", flush="sync") as store:
        store.put_message(Message("orders", keys="k", queue_id=0))
        store.dispatch()
        held, over = threading.Event(), threading.Event()

        def hold() -> None:
            with store._dispatch.lock:
                held.set()
                assert over.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(60)
        for _ in range(60):  # several files
            assert store.put_message(Message("orders", bytes(200), queue_id=0)).status is PutMessageStatus.PUT_OK
        assert store.stats.flush_behind_bytes == 0
        assert store.dispatch_behind_bytes > 2 * 4096
        assert len(store.get_message("orders", 0, 0).messages) == 1
        over.set()
        thread.join()
        store.dispatch()
        assert store.get_message("orders", 0, 0, 100).max_offset == 61


HOUR_MS = 3_600_000
WOKEN_BY_NOBODY = {
    "mapped_file_size_commit_log": 1 << 20,
    "reput_interval_ms": HOUR_MS,
    "schedule_interval_ms": HOUR_MS,
    "flush_interval_commit_log_ms": HOUR_MS,
    "flush_interval_consume_queue_ms": HOUR_MS,
}
"""The threads of a store stand still, and a test takes their steps."""


@contextmanager
def threads_at(store: MessageStore, now_s: list[float]) -> Iterator[Background]:
    """The threads of a store, for which it is the last of `now_s`."""
    threads = Background(store._core, store._dispatch, store._schedule, lambda: now_s[-1])
    try:
        yield threads
    finally:
        threads.stop()


def test_few_pages_wait_and_enough_are_flushed(tmp_path: Path) -> None:
    """As in FlushRealTimeService: an interval flushes nothing below flushCommitLogLeastPages."""
    with open_store(tmp_path / "store", **WOKEN_BY_NOBODY) as store, threads_at(store, [0.0]) as threads:
        least = store._core.options.flush_commit_log_least_pages
        assert least == 4
        for _ in range(3):
            begin = store.max_phy_offset
            while store.max_phy_offset // 4096 - begin // 4096 < least:
                threads._flush_log()
                assert store.stats.flush_behind_bytes == store.max_phy_offset - begin
                store.put_message(Message("orders", bytes(500), queue_id=0))
            threads._flush_log()
            assert store.stats.flush_behind_bytes == 0


def test_after_ten_seconds_everything_is_flushed(tmp_path: Path) -> None:
    """The default of flushCommitLogThoroughInterval. It counts from the last thorough flush."""
    now_s = [100.0]
    with open_store(tmp_path / "store", **WOKEN_BY_NOBODY) as store, threads_at(store, now_s) as threads:
        for begin in (100.0, 110.0, 120.5):
            store.put_message(Message("orders", b"x", queue_id=0))
            for later, is_flushed in ((0.0, False), (5.0, False), (9.99, False), (10.0, True), (10.5, True)):
                now_s.append(begin + later)
                if begin == 110.0 and later == 10.0:
                    continue  # the flush comes half a second late, and the next one ten seconds after it
                threads._flush_log()
                assert (store.stats.flush_behind_bytes == 0) is is_flushed, (begin, later)


def test_what_was_derived_is_flushed_every_ten_seconds(tmp_path: Path) -> None:
    """flushConsumeQueueThoroughInterval; the ConsumeQueue is not flushed page by page."""

    class Counting(Env):
        def __init__(self) -> None:
            super().__init__()
            self.syncs = 0

        @contextmanager
        def operation(self, kind: str, path: str) -> Iterator[None]:
            self.syncs += kind in ("sync", "flush") and "/consumequeue/" in path
            with super().operation(kind, path):
                yield

    env, now_s = Counting(), [0.0]
    with open_store(tmp_path / "store", env=env, **WOKEN_BY_NOBODY) as store, threads_at(store, now_s) as threads:
        for turn in range(3):
            store.put_message(Message("orders", b"x", queue_id=0))
            store.dispatch()
            before = env.syncs
            for later, is_flushed in ((1.0, False), (9.99, False), (10.0, True), (10.0, True)):
                now_s.append(10 * turn + later)
                threads._flush_derived()
                assert (env.syncs > before) is is_flushed, (turn, later)
