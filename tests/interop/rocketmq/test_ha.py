"""Replication with the real engine: its master and our slave, through cut connections, our master
and its slave."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdex.rocketmq.ha.follower import Follower
from logdex.rocketmq.ha.service import HAService
from logdex.rocketmq.ha.timing import HATiming
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message, PutMessageStatus
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify import verify
from tests.interop.rocketmq.engines import VERSIONS
from tests.interop.rocketmq.ha_engines import CuttingProxy, class_path, engine

pytestmark = [pytest.mark.needs_java, pytest.mark.slow, pytest.mark.timeout(1200)]

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 65_536,
    "mapped_file_size_consume_queue": 2_000,
    "max_hash_slot_num": 500,
    "max_index_num": 5_000,
}
TIMING = HATiming(retry_s=0.01, retry_max_s=0.1)


def wait_until(is_so: Callable[[], object], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def log_of(store: Path, begin: int, end: int) -> bytes:
    files = sorted((store / "commitlog").iterdir())
    first = int(files[0].name)
    return b"".join(file.read_bytes() for file in files)[begin - first : end - first]


def require_sound(store: Path, version: str) -> None:
    report = verify(str(store), StoreConfig(**SIZES, dialect=Dialect.of(version)))
    assert [str(finding) for finding in report.findings] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_our_slave_of_a_real_master(version: str, peers_dir: Path, tmp_path: Path) -> None:
    """Through 20 cut connections, while the master puts, and with a restart of the slave."""
    classes, ours, theirs = class_path(peers_dir, version, tmp_path), tmp_path / "ours", tmp_path / "theirs"
    with engine(classes, theirs, "ASYNC_MASTER", tmp_path) as master:
        assert master.ask("put 1500") == "PUT_OK"
        proxy = CuttingProxy(master.port, 20, 7, 150_000)
        with Follower(proxy.address, ours, timing=TIMING, rocketmq_version=version, **SIZES) as slave:
            thread = threading.Thread(target=slave.run)
            thread.start()
            while proxy.cuts_left or slave.report.end_offset < 600_000:
                assert thread.is_alive()
                assert master.ask("put 30") == "PUT_OK"
            end = master.end_offset
            wait_until(lambda: slave.report.acknowledged == end)
            slave.stop()
            thread.join()
            assert slave.report.reconnects >= 20
        assert master.ask("put 300") == "PUT_OK"
        with Follower(proxy.address, ours, timing=TIMING, rocketmq_version=version, **SIZES) as slave:
            report = slave.run(until_caught_up=True)
            assert (report.start_offset, report.end_offset) == (end, master.end_offset)
        with Follower(proxy.address, tmp_path / "last", start="last-file", rocketmq_version=version, **SIZES) as slave:
            report = slave.run(until_caught_up=True)
            assert report.start_offset == report.end_offset // 65_536 * 65_536
        end = report.end_offset
        proxy.close()
    assert log_of(ours, 0, end) == log_of(theirs, 0, end)
    assert log_of(tmp_path / "last", report.start_offset, end) == log_of(theirs, report.start_offset, end)
    require_sound(ours, version)
    for path in (theirs / "consumequeue").rglob("0000*"):
        assert (ours / path.relative_to(theirs)).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_real_master_waits_for_our_slave(version: str, peers_dir: Path, tmp_path: Path) -> None:
    classes = class_path(peers_dir, version, tmp_path)
    with engine(classes, tmp_path / "theirs", "SYNC_MASTER", tmp_path) as master:
        options = {"rocketmq_version": version, "timing": TIMING, **SIZES}
        with Follower(master.address, tmp_path / "ours", **options) as slave:
            thread = threading.Thread(target=slave.run)
            thread.start()
            wait_until(lambda: slave.report.caught_up)
            assert master.ask("put 50") == "PUT_OK"
            # The report follows the acknowledgement, which the master may answer before.
            wait_until(lambda: slave.report.acknowledged == master.end_offset)
            slave.stop()
            thread.join()
        with Follower(master.address, tmp_path / "tapped", tap=True, **options) as tap:
            thread = threading.Thread(target=tap.run)
            thread.start()
            wait_until(lambda: tap.report.caught_up)
            assert master.ask("put 1") == "FLUSH_SLAVE_TIMEOUT"
            end = master.end_offset
            wait_until(lambda: tap.report.end_offset == end)
            tap.stop()
            thread.join()
    assert log_of(tmp_path / "tapped", 0, end) == log_of(tmp_path / "theirs", 0, end)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_real_slave_through_cut_connections(version: str, peers_dir: Path, tmp_path: Path) -> None:
    """20 of them are cut while our master puts."""
    classes, ours, theirs = class_path(peers_dir, version, tmp_path), tmp_path / "ours", tmp_path / "theirs"
    with MessageStore.open(ours, rocketmq_version=version, **SIZES) as store:
        store.put_message(Message("topic"))
        service = HAService(store, port=0)
        proxy = CuttingProxy(service.port, 20, 11, 20_000)
        with engine(classes, theirs, "SLAVE", tmp_path, "--master", proxy.address) as slave:
            until = time.monotonic() + 900
            while proxy.cuts_left:
                assert time.monotonic() < until
                put = store.put_message(Message("topic", b"x" * 300, keys=f"k{store.max_phy_offset}"))
                assert put.is_stored
                time.sleep(0.02)
            store.put_columns(pa.table({"topic": ["topic"] * 200, "keys": [f"last{n}" for n in range(200)]}))
            wait_until(lambda: slave.end_offset == store.max_phy_offset)
            wait_until(lambda: slave.ask("behind") == "0")
            end = store.max_phy_offset
        proxy.close()
        service.close()
    start = min(int(path.name) for path in (theirs / "commitlog").iterdir())  # the master's last file at that time
    assert log_of(theirs, start, end) == log_of(ours, start, end)
    with MessageStore.open(theirs, rocketmq_version=version, **SIZES) as copied:
        assert copied.max_phy_offset == end
        assert len(copied.query_message("topic", "last199").messages) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_real_slave_of_our_master(version: str, peers_dir: Path, tmp_path: Path) -> None:
    """It gets the last file and all that is put then, is waited for, and goes on after our
    restart."""
    classes, ours, theirs = class_path(peers_dir, version, tmp_path), tmp_path / "ours", tmp_path / "theirs"

    def put(store: MessageStore, count: int) -> PutMessageStatus:
        for number in range(count):
            message = Message(
                f"topic-{number % 3}", b"x" * (number * 31 % 700), keys=f"k{number}", tags=f"t{number % 4}"
            )
            status = store.put_message(message).status
        return status

    with MessageStore.open(ours, rocketmq_version=version, **SIZES) as store:
        put(store, 400)
        start = store.max_phy_offset // 65_536 * 65_536
        service = HAService(store, port=0, in_sync_replicas=2, slave_timeout_ms=60_000)
        with engine(classes, theirs, "SLAVE", tmp_path, "--master", f"127.0.0.1:{service.port}") as slave:
            wait_until(lambda: service.slaves and service.slaves[0].acknowledged_offset == store.max_phy_offset)
            assert put(store, 400) is PutMessageStatus.PUT_OK
            assert slave.end_offset == store.max_phy_offset
            port = service.port
            service.close()
            put(store, 100)
            service = HAService(store, port=port)
            wait_until(lambda: slave.end_offset == store.max_phy_offset)
            wait_until(lambda: slave.ask("behind") == "0")
            end = store.max_phy_offset
        service.close()
    assert start > 0
    assert log_of(theirs, start, end) == log_of(ours, start, end)
    with MessageStore.open(theirs, rocketmq_version=version, **SIZES) as copied:
        assert copied.load_report.was_clean
        assert copied.max_phy_offset == end
        assert copied.query_message("topic-1", "k397").messages
