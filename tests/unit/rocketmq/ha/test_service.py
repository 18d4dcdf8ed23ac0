"""A master: slaves get its log, puts wait for them if asked to, and nobody gets wrong bytes."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdex.errors import (
    ConnectionLostError,
    EnvironmentProblem,
    MissingFileError,
    NotAPrefixError,
    ProtocolError,
    UsageError,
)
from logdex.rocketmq.ha.service import HAService
from logdex.rocketmq.ha.timing import HATiming
from logdex.rocketmq.ha.wire import Transfer, TransferDecoder, pack_report
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message, PutMessageResult, PutMessageStatus
from tests.unit.rocketmq.ha.masters import FAST, follow, log_bytes, put_messages
from tests.unit.rocketmq.message_store.open_stores import SIZES, open_store, require_sound

FILE = SIZES["mapped_file_size_commit_log"]


@contextmanager
def master(
    path: Path, messages: int = 60, version: str = "5.5.0", **options: Any
) -> Iterator[tuple[MessageStore, HAService]]:
    with open_store(path, rocketmq_version=version) as store:
        put_messages(store, messages)
        with HAService(store, port=0, **{"timing": FAST, "transfer_batch_bytes": 700, **options}) as service:
            yield store, service


def wait_until(is_so: Callable[[], object]) -> None:
    until = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.005)


@contextmanager
def following(service: HAService, path: Path, **options: Any) -> Iterator[Any]:
    """A slave that follows in a thread until the block ends."""
    with follow(f"127.0.0.1:{service.port}", path, **options) as follower:
        thread = threading.Thread(target=follower.run)
        thread.start()
        try:
            yield follower
        finally:
            follower.stop()
            thread.join(30)


class RawSlave:
    """A slave made of a socket."""

    def __init__(self, service: HAService, request: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", service.port))
        self.socket.settimeout(10)
        self.decoder = TransferDecoder("master")
        self.socket.sendall(pack_report(request))

    def receive(self) -> list[Transfer]:
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        return self.decoder.feed(data)

    def receive_until(self, offset: int) -> bytes:
        found = b""
        while self.decoder.next_offset != offset:
            found += b"".join(each.body for each in self.receive())
        return found

    def receive_all(self) -> list[Transfer]:
        """Everything until the master ends the connection."""
        found: list[Transfer] = []
        with self.socket:
            while True:
                try:
                    found += self.receive()
                except ConnectionError:
                    return found


# -- slaves --------------------------------------------------------------------------------------
def test_our_slave_follows_our_master(tmp_path: Path) -> None:
    with master(tmp_path / "master") as (store, service):
        with following(service, tmp_path / "slave") as slave:
            put_messages(store, 30, first=60)
            wait_until(lambda: slave.report.acknowledged == store.max_phy_offset)
        assert slave.report.messages == 90
    assert log_bytes(tmp_path / "slave") == log_bytes(tmp_path / "master")
    require_sound(tmp_path / "slave")


def test_several_slaves(tmp_path: Path) -> None:
    with master(tmp_path / "master") as (store, service):
        with (
            following(service, tmp_path / "a"),
            following(service, tmp_path / "b", tap=True),
            following(service, tmp_path / "c", start="last-file"),
        ):
            end = store.max_phy_offset
            expected = [1, end, end]
            wait_until(lambda: sorted(each.acknowledged_offset for each in service.slaves) == expected)
            wait_until(lambda: {each.sent_offset for each in service.slaves} == {end})
            assert f"acknowledged {end}" in "".join(map(repr, service.slaves))
        wait_until(lambda: not service.slaves)
    held = log_bytes(tmp_path / "master")
    assert log_bytes(tmp_path / "a") == log_bytes(tmp_path / "b") == held
    assert log_bytes(tmp_path / "c") == held[end // FILE * FILE :]


def test_no_transfer_goes_over_the_end_of_a_file(tmp_path: Path) -> None:
    with master(tmp_path / "master", transfer_batch_bytes=3000) as (store, service):
        slave, seen = RawSlave(service, 1), list[Transfer]()
        while slave.decoder.next_offset != store.max_phy_offset:
            seen += slave.receive()
        slave.socket.close()
        end = store.max_phy_offset
    assert b"\0" + b"".join(each.body for each in seen) == log_bytes(tmp_path / "master")[:end]
    assert all(each.physical_offset // FILE == (each.end_offset - 1) // FILE for each in seen if each.body)
    assert max(len(each.body) for each in seen) == 3000


def test_heartbeats(tmp_path: Path) -> None:
    with master(tmp_path / "master") as (store, service):
        slave = RawSlave(service, store.max_phy_offset)
        begin, beats = time.monotonic(), list[Transfer]()
        while len(beats) < 4:
            beats += slave.receive()
        assert set(beats) == {Transfer(store.max_phy_offset, b"")}
        assert time.monotonic() - begin > 2 * FAST.heartbeat_s
        slave.socket.close()


def test_a_slave_that_says_nothing_is_dropped(tmp_path: Path) -> None:
    with master(tmp_path / "master") as (store, service):
        slave = RawSlave(service, store.max_phy_offset)
        wait_until(lambda: service.slaves)
        [known] = service.slaves
        slave.receive_all()
        wait_until(lambda: not service.slaves)
        assert isinstance(known.ended_by, ConnectionLostError)


@pytest.mark.parametrize("sent", [struct.pack(">q", -5), struct.pack(">q", 5) * 2 + struct.pack(">q", 1 << 60)])
def test_hostile_slaves_are_dropped(sent: bytes, tmp_path: Path) -> None:
    with master(tmp_path / "master") as (_, service):
        slave = RawSlave(service, 1)
        wait_until(lambda: service.slaves)
        [known] = service.slaves
        slave.socket.sendall(sent)
        slave.receive_all()
        wait_until(lambda: not service.slaves)
        assert isinstance(known.ended_by, ProtocolError)


def test_a_slave_that_takes_nothing_stops_nobody(tmp_path: Path) -> None:
    with master(tmp_path / "master", 5) as (store, service):
        lazy = RawSlave(service, 1)
        store.put_message(Message("big", bytes(3000)))
        with following(service, tmp_path / "slave") as slave:
            put_messages(store, 20)
            wait_until(lambda: slave.report.acknowledged == store.max_phy_offset)
        lazy.socket.close()


def test_too_many_slaves_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logdex.rocketmq.ha.service._SLAVES_MAX", 1)
    with master(tmp_path / "master", 5) as (store, service):
        first = RawSlave(service, 1)
        wait_until(lambda: service.slaves)
        assert RawSlave(service, 1).receive_all() == []
        first.receive_until(store.max_phy_offset)
        first.socket.close()


# -- offsets that are not there ------------------------------------------------------------------
def test_a_slave_ahead_gets_heartbeats_alone(tmp_path: Path) -> None:
    with master(tmp_path / "master") as (store, service):
        ahead = store.max_phy_offset + 10
        slave = RawSlave(service, ahead)
        slave.receive()
        put_messages(store, 3)
        time.sleep(0.1)
        assert slave.receive_until(ahead) == b""
        assert {each.physical_offset for each in slave.receive()} == {ahead}
        [known] = service.slaves
        assert known.refused == f"it asks for offset {ahead}, the log ends at {ahead - 10}"
        assert known.acknowledged_offset == -1
        slave.socket.close()


def test_removed_files(tmp_path: Path) -> None:
    """Retention runs while a slave is connected, which goes on. A slave that needs what was removed
    is refused."""
    with master(tmp_path / "master") as (store, service):
        with following(service, tmp_path / "slave") as slave:
            for turn in range(4):
                wait_until(lambda: slave.report.acknowledged == store.max_phy_offset)
                assert store.delete_expired(0, now_ms=1 << 50).commit_log_files
                put_messages(store, 30, first=30 * turn)
            wait_until(lambda: slave.report.acknowledged == store.max_phy_offset)
        assert slave.report.reconnects == 0
        begin, end = store.min_phy_offset, store.max_phy_offset
        assert begin > 3 * FILE
        with (
            follow(f"127.0.0.1:{service.port}", tmp_path / "other") as late,
            pytest.raises(NotAPrefixError, match="older ones were removed"),
        ):
            late.run()
        with follow(f"127.0.0.1:{service.port}", tmp_path / "later", start=begin) as late:
            assert late.run(until_caught_up=True).end_offset == end
    held = log_bytes(tmp_path / "master")
    assert log_bytes(tmp_path / "slave")[begin:] == log_bytes(tmp_path / "later") == held
    for name in ("master", "slave", "later"):
        require_sound(tmp_path / name)


def test_files_that_are_removed_while_they_are_sent(tmp_path: Path) -> None:
    """The connection ends, and a slave that asks again is refused."""
    patient = HATiming(heartbeat_s=0.05, idle_s=30)
    with master(tmp_path / "master", 5, timing=patient) as (store, service):
        end = store.max_phy_offset
        slave = RawSlave(service, end)
        slave.receive()
        [known] = service.slaves
        with store.core.gate.excluding():  # the slave is slow meanwhile
            put_messages(store, 60)
            store.delete_expired(0, now_ms=1 << 50)
            begin = store.min_phy_offset
        slave.receive_all()
        assert isinstance(known.ended_by, MissingFileError)
        with RawSlave(service, end).socket:
            wait_until(lambda: any(each.refused for each in service.slaves))
            refused = [each.refused for each in service.slaves if each.refused]
            assert refused == [f"it asks for offset {end}, the log begins at {begin}"]


# -- waiting for slaves --------------------------------------------------------------------------
def other_puts(store: MessageStore) -> Iterator[PutMessageResult]:
    """The results of puts other than that of one message."""
    yield store.put_messages([Message("a", queue_id=0)] * 3)
    yield store.put_columns(pa.table({"topic": ["a", "b"], "body": [b"x", b"y"]}))
    for commit in (True, False):
        half = store.put_half(Message("a", b"half"))
        yield half
        yield store.end_transaction(half, commit=commit)


def test_puts_wait_for_slaves(tmp_path: Path) -> None:
    with master(tmp_path / "master", in_sync_replicas=2) as (store, service), following(service, tmp_path / "slave"):
        for number in range(5):
            put = store.put_message(Message("a", b"x", keys=f"s{number}"))
            assert put.status is PutMessageStatus.PUT_OK
            [slave] = service.slaves
            assert slave.acknowledged_offset == store.max_phy_offset
        for put in other_puts(store):
            assert (put.status, slave.acknowledged_offset) == (PutMessageStatus.PUT_OK, store.max_phy_offset)
    assert log_bytes(tmp_path / "slave") == log_bytes(tmp_path / "master")


@pytest.mark.parametrize(
    ("version", "slaves", "status"),
    [
        ("5.5.0", "none", PutMessageStatus.FLUSH_SLAVE_TIMEOUT),
        ("5.5.0", "tap", PutMessageStatus.FLUSH_SLAVE_TIMEOUT),
        ("4.9.7", "none", PutMessageStatus.SLAVE_NOT_AVAILABLE),
        ("4.9.7", "tap", PutMessageStatus.FLUSH_SLAVE_TIMEOUT),
    ],
)
def test_slaves_that_do_not_acknowledge(version: str, slaves: str, status: PutMessageStatus, tmp_path: Path) -> None:
    options: dict[str, Any] = {"in_sync_replicas": 2, "slave_timeout_ms": 20}
    with master(tmp_path / "master", version=version) as (store, service):
        pass
    with open_store(tmp_path / "master", rocketmq_version=version) as store:
        service = HAService(store, port=0, timing=FAST, **options)
        tap = RawSlave(service, 1) if slaves == "tap" else None
        wait_until(lambda: len(service.slaves) == (slaves == "tap"))
        wait_until(lambda: all(each.acknowledged_offset == 1 for each in service.slaves))
        begin = time.monotonic()
        put = store.put_message(Message("a"))
        assert put.status is status
        assert put.is_stored
        assert (time.monotonic() - begin >= 0.02) is (status is PutMessageStatus.FLUSH_SLAVE_TIMEOUT)
        assert store.put_message(Message("a", wait_store_msg_ok=False)).status is PutMessageStatus.PUT_OK
        assert [(put.status, put.is_stored) for put in other_puts(store)] == [(status, True)] * 6
        service.close()
        assert store.put_message(Message("a")).status is PutMessageStatus.PUT_OK
        if tap is not None:
            tap.socket.close()


def test_two_of_three(tmp_path: Path) -> None:
    options: dict[str, Any] = {"in_sync_replicas": 3, "slave_timeout_ms": 200}
    with master(tmp_path / "master", 5, **options) as (store, service), following(service, tmp_path / "a"):
        wait_until(lambda: service.slaves)
        assert store.put_message(Message("a")).status is PutMessageStatus.FLUSH_SLAVE_TIMEOUT
    with (
        master(tmp_path / "master", 0, in_sync_replicas=3, slave_timeout_ms=20_000) as (store, service),
        following(service, tmp_path / "a"),
        following(service, tmp_path / "b"),
    ):
        assert store.put_message(Message("a")).status is PutMessageStatus.PUT_OK


# -- the service itself --------------------------------------------------------------------------
def test_loopback_alone_by_default(tmp_path: Path) -> None:
    with master(tmp_path / "master", 1) as (store, service):
        assert service.host == "127.0.0.1"
        with pytest.raises(EnvironmentProblem, match="already in use"):
            HAService(store, port=service.port)
        refused: tuple[dict[str, Any], ...] = (
            {"in_sync_replicas": 0},
            {"transfer_batch_bytes": 0},
            {"transfer_batch_bytes": 1 << 30},
        )
        for options in refused:
            with pytest.raises(UsageError):
                HAService(store, port=0, **options)


def test_a_store_that_is_closed_first(tmp_path: Path) -> None:
    with open_store(tmp_path / "master") as store:
        put_messages(store, 5)
        service = HAService(store, port=0, timing=FAST)
        slave = RawSlave(service, 1)
        slave.receive()
    slave.receive_all()
    service.close()
    service.close()
