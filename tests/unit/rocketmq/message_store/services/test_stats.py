"""What a store counts, as numbers and as Prometheus text; the checks of a put that depend on the
disk."""

from __future__ import annotations

import errno
import logging
import time
from pathlib import Path

import pyarrow as pa
import pytest

from logdex.errors import StorageError, UsageError
from logdex.io.env import Env
from logdex.rocketmq import Message, PutMessageStatus
from logdex.rocketmq.message_store.background import Background
from logdex.rocketmq.message_store.put.log_files import LogFiles
from logdex.rocketmq.message_store.put.message import PutMessageResult
from logdex.rocketmq.message_store.services.stats import StoreStatsService
from logdex.testing import Fault, FaultEnv
from tests.unit.rocketmq.message_store.open_stores import open_store


def test_what_a_store_counts(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", flush="sync") as store:
        store.put_message(Message("orders", queue_id=0))
        store.put_messages([Message("orders", queue_id=0)] * 3)
        store.put_columns(pa.table({"topic": ["orders"] * 5, "queue_id": [0] * 5}))
        store.put_message(Message("orders", delay_level=1))
        assert store.put_message(Message("orders", bytes(5000))).status is PutMessageStatus.MESSAGE_ILLEGAL
        with pytest.raises(UsageError):
            store.put_message(Message("orders", queue_id=77))
        behind = store.stats
        assert (behind.puts, behind.put_messages, behind.puts_failed) == (4, 10, {"MESSAGE_ILLEGAL": 1})
        assert behind.put_bytes == behind.dispatch_behind_bytes == store.max_phy_offset
        assert sum(behind.put_times.values()) == 4
        assert behind.flushes >= 4
        assert behind.flush_seconds >= behind.flush_seconds_max > 0
        assert store.deliver_due(1 << 50) == 1
        store.get_message("orders", 0, 0)
        store.get_message("orders", 0, 99)
        stats = store.stats
        assert (stats.gets_found, stats.gets_missed, stats.get_messages) == (1, 1, 9)
        store.get_columns("orders", 0, 2)
        store.get_columns("orders", 0, 99)
        counted = store.stats
        assert (counted.gets_found, counted.gets_missed, counted.get_messages) == (2, 2, 16)
        assert stats.get_seconds_max > 0
        assert (stats.delayed_delivered, stats.delayed_passed_over) == (1, 0)
        assert stats.dispatch_behind_bytes_max == behind.dispatch_behind_bytes
        assert stats.flush_behind_bytes == 0 or stats.dispatch_behind_bytes > 0
        assert "puts=5, put_messages=11" in repr(stats)
        lines = stats.prometheus().splitlines()
        assert "# TYPE logdex_store_puts_total counter" in lines
        assert "logdex_store_puts_total 5" in lines
        assert 'logdex_store_puts_failed_total{status="MESSAGE_ILLEGAL"} 1' in lines
        assert "# TYPE logdex_store_dispatch_behind_bytes gauge" in lines
        assert any(line.startswith('logdex_store_put_times_total{at_most_ms="+Inf"} ') for line in lines)


def test_a_slow_put_is_not_printed_unless_logging_is_configured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command that puts has its own output."""
    monkeypatch.setattr(logging.getLogger("logdex.rocketmq.message_store.services.stats"), "propagate", False)
    StoreStatsService(0).put_ended(0.6, PutMessageResult(PutMessageStatus.PUT_OK, 0, 0, 100))
    assert capsys.readouterr().err == ""


def test_a_slow_put_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    stats = StoreStatsService(0)
    stats.puts = 3
    done = PutMessageResult(PutMessageStatus.PUT_OK, 0, 0, 100)
    with caplog.at_level(logging.WARNING):
        stats.put_ended(0.004, done)
        stats.put_ended(0.6, done)
    assert [record.getMessage() for record in caplog.records] == ["a put took 0.600 s, 100 bytes"]
    found = stats.snapshot(end_offset=300, durable_offset=100, behind_bytes=0)
    assert {bound: count for bound, count in found.put_times.items() if count} == {"0": 1, "10": 1, "1000": 1}
    times = [line for line in found.prometheus().splitlines() if line.startswith("logdex_store_put_times_total")]
    assert [line.partition("=")[2] for line in times][:3] == ['"0"} 1', '"10"} 2', '"50"} 2']
    assert times[-1] == 'logdex_store_put_times_total{at_most_ms="+Inf"} 3'
    assert (found.slow_puts, found.put_seconds_max, found.flush_behind_bytes) == (1, 0.6, 200)


def test_a_failed_write_is_counted(tmp_path: Path) -> None:
    env = FaultEnv(str(tmp_path))
    store = open_store(tmp_path / "store", env=env)
    store.put_message(Message("orders"))
    env.fault, env._matching = Fault(1, errno.EIO, frozenset({"write_at"})), 0
    with pytest.raises(StorageError):
        store.put_message(Message("orders"))
    assert store.put_message(Message("orders")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert store.stats.puts_failed == {"ERROR": 1, "SERVICE_NOT_AVAILABLE": 1}
    store.close()


class Disk(Env):
    """A disk of which a given part is in use."""

    def __init__(self) -> None:
        super().__init__()
        self.used = 0.95

    def used_ratio(self, path: str) -> float:
        return self.used


def test_a_full_disk_refuses_puts(tmp_path: Path) -> None:
    disk = Disk()
    with open_store(tmp_path / "store", env=disk, disk_space_warning_level_ratio=0.9) as store:
        assert store.put_message(Message("orders")).is_stored
        half = store.put_half(Message("orders"))
        store.delete_expired()
        table = pa.table({"topic": ["orders"]})
        for refused in (
            store.put_message(Message("orders")),
            store.put_messages([Message("orders")]),
            store.put_columns(table),
            store.put_half(Message("orders")),
            store.end_transaction(half, commit=True),
        ):
            assert refused.status is PutMessageStatus.SERVICE_NOT_AVAILABLE
            told = "95 % of the disk is used, over the limit of 90 % (disk_space_warning_level_ratio)"
            assert refused.remark == f"the store takes no messages: {told}"
        disk.used = 0.9004
        store.delete_expired()
        assert "90.04 % of the disk is used, over the limit of 90 %" in store.put_message(Message("orders")).remark
        disk.used = 0.5
        store.delete_expired()
        assert store.put_message(Message("orders")).is_stored
    assert not (tmp_path / "store" / "abort").exists()
    with pytest.raises(UsageError, match="disk_space_warning_level_ratio"):
        open_store(tmp_path / "store", disk_space_warning_level_ratio=90)


def test_a_thread_looks_at_the_disk(tmp_path: Path) -> None:
    fast = {"background": True, "flush_interval_consume_queue_ms": 1, "clean_resource_interval_ms": 1}
    with open_store(tmp_path / "store", env=Disk(), **fast) as store:
        until = time.monotonic() + 10
        while store.put_message(Message("orders")).is_stored and time.monotonic() < until:
            time.sleep(0.002)
        assert store.put_message(Message("orders")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE


def test_the_first_look_at_the_disk_comes_after_a_second(tmp_path: Path) -> None:
    now_s = [100.0]
    with open_store(tmp_path / "store", env=Disk()) as store:
        threads = Background(store._core, store._dispatch, store._schedule, lambda: now_s[-1])
        try:
            threads._flush_derived()
            assert store.put_message(Message("orders")).is_stored
            now_s.append(101.0)
            threads._flush_derived()
            assert not store.put_message(Message("orders")).is_stored
            store._core.env.used = 0.5  # type: ignore[attr-defined]
            for later_s, is_stored in ((110.9, False), (111.0, True)):
                now_s.append(later_s)
                threads._flush_derived()
                assert store.put_message(Message("orders")).is_stored == is_stored
        finally:
            threads.stop()


def test_warm_files_have_their_space(tmp_path: Path) -> None:
    for warm in (False, True):
        env = Env()
        (tmp_path / str(warm)).mkdir()
        files = LogFiles(env, str(tmp_path / str(warm)), 1 << 20, 0, warm=warm)
        files.prepare()
        used = (tmp_path / str(warm) / f"{1 << 20:020d}").stat().st_blocks * 512
        assert (used >= 1 << 20) is warm
        files.close()
    with open_store(tmp_path / "store", warm_mapped_file_enable=True) as store:
        for _ in range(50):
            assert store.put_message(Message("orders", bytes(300))).is_stored
