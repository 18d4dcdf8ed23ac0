"""Masters for the tests of a slave: one that serves bytes as a broker does, and any that
misbehave."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from logdex.rocketmq.ha.follower import Follower
from logdex.rocketmq.ha.timing import HATiming
from logdex.rocketmq.ha.wire import pack_transfer
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from tests.unit.rocketmq.message_store.open_stores import SIZES, open_store

FAST = HATiming(heartbeat_s=0.05, idle_s=0.5, retry_s=0.01, retry_max_s=0.05)
Behaviour = Callable[[socket.socket, int], None]
"""Gets a slave's connection and its first report."""


class Master:
    """Listens on loopback and runs a behaviour for each connection, in a thread."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.reports: list[list[int]] = []
        """What each connection reported, the first report included."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                own, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(own,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, own: socket.socket) -> None:
        reports: list[int] = []
        self.reports.append(reports)
        with own:
            try:
                reports.append(read_report(own))
                self.behaviour(own, reports[0])
                own.settimeout(0.3)
                while True:
                    reports.append(read_report(own))
            except OSError:
                pass

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(20)


def read_report(own: socket.socket) -> int:
    data = b""
    while len(data) < 8:
        part = own.recv(8 - len(data))
        if not part:
            raise ConnectionResetError
        data += part
    return int(struct.unpack(">q", data)[0])


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[Master]:
    master = Master(behaviour)
    try:
        yield master
    finally:
        master.close()


def log_bytes(path: Path) -> bytes:
    """All files of a store's CommitLog, one after the other."""
    return b"".join(file.read_bytes() for file in sorted((path / "commitlog").iterdir()))


def plain(log: bytes, *, batch: int = 700, file_size: int = SIZES["mapped_file_size_commit_log"]) -> Behaviour:
    """Serves a log as a broker does: no transfer goes over the end of a file, then a heartbeat."""

    def behave(own: socket.socket, request: int) -> None:
        at = request or len(log) // file_size * file_size
        while at < len(log):
            end = min(at + batch, len(log), at // file_size * file_size + file_size)
            own.sendall(pack_transfer(at, log[at:end]))
            at = end
        own.sendall(pack_transfer(at))

    return behave


def filled_store(path: Path, messages: int = 60, **settings: Any) -> bytes:
    """Makes a store of several files; returns its log up to the last message."""
    with open_store(path, **settings) as store:
        put_messages(store, messages)
        end = store.max_phy_offset
    return log_bytes(path)[:end]


def put_messages(store: MessageStore, messages: int, first: int = 0) -> None:
    for number in range(first, first + messages):
        message = Message(f"topic-{number % 3}", b"x" * (number % 7 * 40), keys=f"k{number}", tags=f"t{number % 4}")
        assert store.put_message(message).is_stored


def follow(master: Master | str, path: Path, **options: Any) -> Follower:
    address = master if isinstance(master, str) else master.address
    return Follower(address, path, **{"timing": FAST, **SIZES, **options})
