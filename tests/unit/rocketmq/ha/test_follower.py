"""A slave: its log is the master's, byte for byte, and it acknowledges what is on disk."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest

from logdex.errors import ConnectionLostError, GeometryError, NotAPrefixError, ProtocolError
from logdex.rocketmq.ha.wire import pack_transfer
from logdex.rocketmq.message_store.put.message import Message, PutMessageStatus
from logdex.rocketmq.read.results import GetMessageStatus
from tests.examples import cases
from tests.unit.rocketmq.ha.masters import filled_store, follow, log_bytes, plain, serving
from tests.unit.rocketmq.message_store.open_stores import SIZES, open_store, require_sound

FILE = SIZES["mapped_file_size_commit_log"]


def followed(tmp_path: Path, log: bytes, **options: object) -> Path:
    with serving(plain(log)) as master, follow(master, tmp_path / "slave", **options) as follower:
        report = follower.run(until_caught_up=True)
        assert report.end_offset == len(log)
        assert report.caught_up
    return tmp_path / "slave"


@pytest.mark.parametrize("batch", [7, 700, 1 << 20])
def test_the_log_is_the_masters(batch: int, tmp_path: Path) -> None:
    log = filled_store(tmp_path / "master", 60 if batch > 7 else 12)
    with serving(plain(log, batch=batch)) as master, follow(master, tmp_path / "slave") as follower:
        report = follower.run(until_caught_up=True)
        assert follower.store.query_message("topic-1", "k4").messages
        assert follower.store.put_message(Message("topic-1")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert log_bytes(tmp_path / "slave") == log_bytes(tmp_path / "master")
    assert (report.messages, report.start_offset, report.reconnects) == (60 if batch > 7 else 12, 0, 0)
    assert master.reports[0][0] == 1
    assert master.reports[0][-1] == report.acknowledged == len(log)
    require_sound(tmp_path / "slave")
    for path in (tmp_path / "master" / "consumequeue").rglob("0*"):
        if path.is_dir():
            continue
        assert (tmp_path / "slave" / path.relative_to(tmp_path / "master")).read_bytes() == path.read_bytes()


def test_a_slave_dispatches_as_it_goes(tmp_path: Path) -> None:
    """Nobody asks it to, and the connection stays."""
    log = filled_store(tmp_path / "master")
    with serving(plain(log)) as master, follow(master, tmp_path / "slave", background=True) as follower:
        thread = threading.Thread(target=follower.run)
        thread.start()
        try:
            store, deadline = follower.store, time.monotonic() + 30
            while time.monotonic() < deadline and (store.max_phy_offset < len(log) or store.dispatch_behind_bytes):
                time.sleep(0.005)
            assert (store.max_phy_offset, store.dispatch_behind_bytes) == (len(log), 0)
            assert thread.is_alive()
            found = [store.get_message(info.topic, info.queue_id, 0) for info in store.queues()]
            assert {each.status for each in found} == {GetMessageStatus.FOUND}
            assert sum(len(each.messages) for each in found) == 60
        finally:
            follower.stop()
            thread.join()


def test_a_restart_goes_on_where_the_log_ends(tmp_path: Path) -> None:
    log = filled_store(tmp_path / "master")
    first = log[: len(log) * 2 // 3]  # within a message
    with serving(plain(first)) as master, follow(master, tmp_path / "slave") as follower:
        threading.Timer(0.3, follower.stop).start()
        half = follower.run().end_offset
    assert 0 < half <= len(first)
    with serving(plain(log)) as master, follow(master, tmp_path / "slave") as follower:
        report = follower.run(until_caught_up=True)
    assert (report.start_offset, report.end_offset) == (half, len(log))
    assert 0 < half - master.reports[0][0] <= 4096
    assert log_bytes(tmp_path / "slave") == log_bytes(tmp_path / "master")
    require_sound(tmp_path / "slave")


def test_a_tap_never_acknowledges(tmp_path: Path) -> None:
    log = filled_store(tmp_path / "master")

    def behave(own: socket.socket, request: int) -> None:
        plain(log)(own, request)
        time.sleep(0.2)

    with serving(behave) as master, follow(master, tmp_path / "slave", tap=True) as follower:
        threading.Timer(0.3, follower.stop).start()
        report = follower.run()
    assert report.end_offset == len(log)
    assert report.acknowledged == 1
    assert set(master.reports[0]) == {1}
    assert len(master.reports[0]) > 1
    assert log_bytes(tmp_path / "slave") == log_bytes(tmp_path / "master")


@pytest.mark.parametrize("start", ["last-file", FILE])
def test_a_log_that_begins_later(start: str | int, tmp_path: Path) -> None:
    log = filled_store(tmp_path / "master")
    begin = (len(log) - 1) // FILE * FILE if start == "last-file" else FILE
    with serving(plain(log)) as master, follow(master, tmp_path / "slave", start=start) as follower:
        report = follower.run(until_caught_up=True)
        assert follower.store.min_phy_offset == begin
    assert (report.start_offset, report.end_offset) == (begin, len(log))
    assert log_bytes(tmp_path / "slave") == log_bytes(tmp_path / "master")[begin:]
    require_sound(tmp_path / "slave")


def test_an_empty_master(tmp_path: Path) -> None:
    assert log_bytes(followed(tmp_path, b"")) == bytes(FILE)


def test_new_topics_are_known_after_a_kill(tmp_path: Path) -> None:
    log = filled_store(tmp_path / "master")
    with serving(plain(log)) as master:
        follower = follow(master, tmp_path / "slave", background=False)
        follower.run(until_caught_up=True)
        store = follower.store
        store._core.close_files()
        store._dispatch.close_files()
        store._core.process_lock.release()
    with open_store(tmp_path / "slave") as store:
        assert not store.load_report.was_clean
        assert {queue.topic for queue in store.queues()} == {b"topic-0", b"topic-1", b"topic-2"}
        assert store.put_message(Message("topic-1")).is_stored
    require_sound(tmp_path / "slave")


# -- a log that is not the beginning of the master's ---------------------------------------------
def test_another_log(tmp_path: Path) -> None:
    log = filled_store(tmp_path / "master")
    slave = followed(tmp_path, log)
    for place in (len(log) - 1, len(log) - 300):
        other = bytearray(log + log[:100])
        other[place] ^= 1
        with (
            serving(plain(bytes(other))) as master,
            follow(master, slave) as follower,
            pytest.raises(NotAPrefixError, match=f"differs at offset {place}; this one ends at {len(log)}"),
        ):
            follower.run()
    assert log_bytes(slave) == log_bytes(tmp_path / "master")


def test_a_shorter_master(tmp_path: Path) -> None:
    log = filled_store(tmp_path / "master")
    slave = followed(tmp_path, log)
    for shorter in (log[:-1], log[: len(log) // FILE * FILE], log[:FILE], b""):
        with (
            serving(plain(shorter)) as master,
            follow(master, slave) as follower,
            pytest.raises(NotAPrefixError, match=f"does not have offset {len(log)} of its log"),
        ):
            follower.run()


def test_a_slave_that_ends_with_a_file(tmp_path: Path) -> None:
    log = filled_store(tmp_path / "master")
    whole = log[: 2 * FILE]
    slave = followed(tmp_path, whole)
    with (
        serving(plain(log[:FILE])) as master,
        follow(master, slave) as follower,
        pytest.raises(NotAPrefixError, match=f"does not have offset {2 * FILE}"),
    ):
        follower.run()
    with serving(plain(whole)) as master, follow(master, slave) as follower:
        assert follower.run(until_caught_up=True).messages == 0
    with serving(plain(log)) as master, follow(master, slave) as follower:
        assert follower.run(until_caught_up=True).end_offset == len(log)
    assert log_bytes(slave) == log_bytes(tmp_path / "master")


def test_a_master_that_removed_its_first_files(tmp_path: Path) -> None:
    log = filled_store(tmp_path / "master")

    def behave(own: socket.socket, request: int) -> None:
        if 0 < request < 2 * FILE:
            own.sendall(pack_transfer(request))
        else:
            plain(log)(own, request)

    with serving(behave) as master:
        with (
            follow(master, tmp_path / "slave") as follower,
            pytest.raises(NotAPrefixError, match="older ones were removed"),
        ):
            follower.run()
        with follow(master, tmp_path / "later", start=2 * FILE) as follower:
            assert follower.run(until_caught_up=True).end_offset == len(log)


@pytest.mark.parametrize("size", [2 * FILE, FILE // 2])
def test_files_of_another_size(size: int, tmp_path: Path) -> None:
    log = filled_store(tmp_path / "master")
    options = {"mapped_file_size_commit_log": size}
    with serving(plain(log)) as master, follow(master, tmp_path / "slave", **options) as follower:
        with pytest.raises(GeometryError, match="--mapped-file-size-commit-log"):
            follower.run()
        end = follower.store.max_phy_offset
    held = log_bytes(tmp_path / "slave")
    assert held[:end] == log[:end]
    assert not any(held[end:])


# -- connections ---------------------------------------------------------------------------------
def test_nobody_there(tmp_path: Path) -> None:
    with serving(plain(b"")) as master:
        pass
    with follow(master.address, tmp_path / "slave") as follower, pytest.raises(ConnectionLostError, match="refused"):
        follower.run()


def test_it_gives_up_after_a_while(tmp_path: Path) -> None:
    log = filled_store(tmp_path / "master")
    with serving(plain(log)) as master:
        follower = follow(master, tmp_path / "slave", retry_for_s=0.2)
        threading.Timer(0.2, master.close).start()
        with pytest.raises(ConnectionLostError):
            follower.run()
    assert follower.report.end_offset == len(log)
    follower.close()


def test_twenty_lost_connections(tmp_path: Path) -> None:
    log = filled_store(tmp_path / "master")
    places = iter(range(len(log) // 21, len(log) + 1, len(log) // 21))

    def behave(own: socket.socket, request: int) -> None:
        stop = next(places, len(log))
        if stop < len(log):
            at = request
            own.sendall(pack_transfer(at, log[at:stop]) if at < stop else pack_transfer(at, log[at : at + 1])[:7])
            own.shutdown(socket.SHUT_WR)
        else:
            plain(log)(own, request)

    with serving(behave) as master, follow(master, tmp_path / "slave") as follower:
        report = follower.run(until_caught_up=True)
    assert report.reconnects >= 20
    assert log_bytes(tmp_path / "slave") == log_bytes(tmp_path / "master")
    for reports in master.reports:
        assert all(offset <= len(log) for offset in reports)
    require_sound(tmp_path / "slave")


def test_progress(tmp_path: Path) -> None:
    log = filled_store(tmp_path / "master")
    told: list[tuple[int, int]] = []
    with serving(plain(log)) as master, follow(master, tmp_path / "slave") as follower:
        follower.run(until_caught_up=True, progress=lambda *counts: told.append(counts))
    assert told[-1] == (60, len(log))
    assert told == sorted(told)


# -- hostile -------------------------------------------------------------------------------------
HOSTILE = {
    "text": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "huge": pack_transfer(1)[:8] + b"\x7f\xff\xff\xff" + bytes(100),
    "negative": pack_transfer(1)[:8] + b"\xff\xff\xff\xff",
    "an offset that jumps": pack_transfer(500, b"abc"),
    "zeros": pack_transfer(1, bytes(500)),
    "no messages": pack_transfer(1, b"garbage " * 50),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_masters_are_refused(name: str, tmp_path: Path) -> None:
    def behave(own: socket.socket, _: int) -> None:
        own.sendall(HOSTILE[name])

    with serving(behave) as master, follow(master, tmp_path / "slave") as follower:
        with pytest.raises(ProtocolError):
            follower.run()
        assert follower.store.max_phy_offset == 0
    assert not any(log_bytes(tmp_path / "slave"))


@pytest.mark.parametrize("silence", cases([pack_transfer(1)[:5], b"", pack_transfer(1, b"x" * 100)[:60]], 3))
def test_a_silent_master_is_left(silence: bytes, tmp_path: Path) -> None:
    """It sends nothing whole, be it byte by byte: the slave connects again, and takes nothing
    over."""
    log = filled_store(tmp_path / "master", 12)
    turns = iter(range(100))

    def behave(own: socket.socket, request: int) -> None:
        if next(turns) >= 2:
            plain(log)(own, request)
            return
        for at in range(len(silence)):
            own.sendall(silence[at : at + 1])
            time.sleep(0.02)
        own.settimeout(5)
        while own.recv(8):
            pass

    with serving(behave) as master, follow(master, tmp_path / "slave") as follower:
        report = follower.run(until_caught_up=True)
    assert report.reconnects == 2
    assert log_bytes(tmp_path / "slave") == log_bytes(tmp_path / "master")


def test_harmed_messages_are_not_taken(tmp_path: Path) -> None:
    log = filled_store(tmp_path / "master", 12)
    size = int.from_bytes(log[:4], "big")
    second = int.from_bytes(log[size : size + 4], "big")
    body = log.index(b"x" * 40, size)
    for place in (size + 1, size + 5, size + 30, body + 3):
        harmed = bytearray(log)
        harmed[place] ^= 0x40
        path = tmp_path / f"slave-{place}"
        with serving(plain(bytes(harmed))) as master, follow(master, path) as follower:
            with pytest.raises((ProtocolError, GeometryError)):
                follower.run()
            assert follower.store.max_phy_offset in (0, size)
        assert log_bytes(path)[:size] in (log[:size], bytes(size))
        assert not any(log_bytes(path)[size : size + second])


@pytest.mark.slow
def test_a_message_of_hundreds_of_megabytes_is_not_awaited(tmp_path: Path) -> None:
    log = filled_store(tmp_path / "master", 3)
    huge = bytearray(log)
    huge[:4] = (200 << 20).to_bytes(4, "big")
    huge += bytes(70 << 20)
    big = {"mapped_file_size_commit_log": 1 << 30}

    def behave(own: socket.socket, request: int) -> None:
        if request == 1:
            own.sendall(pack_transfer(1, bytes(huge[1 : 4 << 20])[: (4 << 20) - 12]))
            at = (4 << 20) - 11
            while True:
                own.sendall(pack_transfer(at, bytes(huge[at : at + (1 << 20)])))
                at += 1 << 20

    with serving(behave) as master, follow(master, tmp_path / "slave", **big) as follower, pytest.raises(ProtocolError):
        follower.run()
