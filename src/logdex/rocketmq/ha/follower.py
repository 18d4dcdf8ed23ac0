"""`Follower`: a slave that writes its master's log into a store, and dispatches it.

What it acknowledges is on disk. It connects again when the connection is lost, and goes on where
its log ends, also after a restart. Source: DefaultHAClient;
``docs/design/0021-master-and-slave.md`` says where it differs.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Literal, Unpack

from logdex.errors import ConnectionLostError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.net.connection import parse_address
from logdex.jobs.reports import Progress
from logdex.primitives.shown import repr_of
from logdex.rocketmq.ha.client import HAClient, last_file_offset
from logdex.rocketmq.ha.replica_log import ReplicaLog, not_there
from logdex.rocketmq.ha.timing import HATiming
from logdex.rocketmq.ha.wire import Transfer
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.options import MessageStoreSettings

Start = int | Literal["first", "last-file"]
"""Where the log of a new store begins: at the master's first message (offset 0), at the start of
its last file, or at a physical offset at which one of the master's files begins."""

_SLICE_S = 0.2
_BATCH_BYTES = 4 << 20
"""How much is received before it is written, if it comes that fast."""


@dataclass(slots=True)
class FollowReport:
    """What a `Follower` did. Offsets are physical offsets of the CommitLog. `acknowledged` is the
    last offset that was reported to the master."""

    master: str
    path: str
    tap: bool
    start_offset: int
    end_offset: int
    acknowledged: int = 0
    messages: int = 0
    reconnects: int = 0
    caught_up: bool = False
    """Whether the store had everything that the master had, at the end or before."""
    seconds: float = 0.0

    @property
    def bytes(self) -> int:
        """How many bytes of the log were written."""
        return self.end_offset - self.start_offset

    def to_json(self) -> dict[str, Any]:
        """Returns the report object that ends the output of ``logdex follow --json``."""
        return asdict(self) | {"bytes": self.bytes}


class Follower:
    """Follows the master at `address` (``HOST:PORT``, its HA port) into the store at `path`, which
    is created if it is missing.

    `run` works until `stop` is called, which any thread may do. `store` can be read meanwhile: it
    is a `MessageStore` that refuses puts. `close`, or ``with``, closes it.

    A `tap` does not acknowledge: it repeats what it asked for, so that no put of the master waits
    for it or counts on it. When it connects again, it asks for what follows, which is on disk.

    `start` is for a store without a log. `settings` are those of `MessageStore.open`. With
    `retry_for_s` it gives up when the master could not be reached for so long.
    """

    def __init__(
        self,
        address: str,
        path: str | os.PathLike[str],
        *,
        tap: bool = False,
        start: Start = "first",
        retry_for_s: float | None = None,
        timing: HATiming | None = None,
        env: Env = DEFAULT_ENV,
        **settings: Unpack[MessageStoreSettings],
    ) -> None:
        self._host, self._port = parse_address(address)
        self._timing = timing or HATiming()
        self._retry_for_s = retry_for_s
        first = 0 if start == "first" else start
        if first == "last-file":
            first = last_file_offset(self._host, self._port, self._timing)
        own: MessageStoreSettings = {**settings, "is_slave": True, "first_offset": first}
        self.store = MessageStore.open(path, env=env, **own)
        self._replica = ReplicaLog(self.store.core, address)
        end = self._replica.end_offset
        self.report = FollowReport(address, self.store.path, tap, end, end)
        self._stopped = threading.Event()
        self._is_first = True
        self._alive_s = 0.0
        self._pause_s = self._timing.retry_s

    def __repr__(self) -> str:
        return repr_of(self, self.report.master, f"into {self.store!r}")

    def stop(self) -> None:
        """Makes `run` return soon, with everything whole that came so far."""
        self._stopped.set()

    def run(self, *, until_caught_up: bool = False, progress: Progress | None = None) -> FollowReport:
        """Follows until `stop` is called; with `until_caught_up` until the store has everything
        that the master had when it began. `progress` is told of messages and bytes.

        Raises `ConnectionLostError` if the master cannot be reached at first, or for `retry_for_s`
        later; `NotAPrefixError` if the store is not the beginning of the master's log;
        `ProtocolError` for bytes that no master sends, `GeometryError` if its files have another
        size, and what writing raises.
        """
        begin_s = self._alive_s = time.monotonic()
        try:
            while not self._is_done(until_caught_up):
                try:
                    self._connection(until_caught_up, progress)
                except ConnectionLostError:
                    lost_s = time.monotonic() - self._alive_s
                    if self._is_first or (self._retry_for_s is not None and lost_s > self._retry_for_s):
                        raise
                    self._stopped.wait(self._pause_s)
                    self._pause_s = min(2 * self._pause_s, self._timing.retry_max_s)
        finally:
            self.report.seconds += time.monotonic() - begin_s
        return self.report

    def _is_done(self, until_caught_up: bool) -> bool:
        return self._stopped.is_set() or (until_caught_up and self.report.caught_up)

    # -- one connection ---------------------------------------------------------------------------
    def _connection(self, until_caught_up: bool, progress: Progress | None) -> None:
        client = HAClient.connect(self._host, self._port, self._replica.begin(), self._timing)
        self.report.reconnects += not self._is_first
        self._is_first = False
        watch = _Watch()
        try:
            while not self._is_done(until_caught_up):
                last = self._receive(client, watch)
                self._settle(client)
                if last is not None:
                    self._alive_s, self._pause_s = time.monotonic(), self._timing.retry_s
                    if progress is not None:
                        progress(self.report.messages, self.report.bytes)
                    self._note_caught_up(watch, last)
        finally:
            client.close()

    def _receive(self, client: HAClient, watch: _Watch) -> Transfer | None:
        """Takes what came, and what comes at once. Returns the last transfer, or None if nothing
        came."""
        last, size, timeout_s = None, 0, _SLICE_S
        while size < _BATCH_BYTES:
            transfers = client.receive(timeout_s)
            if not transfers:
                break
            for last in transfers:
                if last.body:
                    self._replica.take(last)
                    watch.largest = max(watch.largest, len(last.body))
                else:
                    self._heartbeat(watch)
                size += len(last.body)
            timeout_s = 0.0
        return last

    def _settle(self, client: HAClient) -> None:
        """Writes what is whole, and acknowledges it."""
        is_new = self._replica.settle()
        self.report.end_offset, self.report.messages = self._replica.end_offset, self._replica.messages
        self.store.wait_dispatched(0)  # raises what stopped the dispatch
        end = self._replica.end_offset
        if not self.report.tap and self._replica.is_joined and (is_new or end > client.reported_offset):
            client.report(end)
        self.report.acknowledged = client.reported_offset

    def _note_caught_up(self, watch: _Watch, last: Transfer) -> None:
        """A master that sends a heartbeat has nothing more, and neither has one that sent less than
        it can, though not up to the end of a file."""
        is_short = len(last.body) < watch.largest and last.end_offset % self.store.core.log.file_size_bytes
        if (is_short or not last.body) and self._replica.is_whole and self._replica.is_joined:
            self.report.caught_up = True

    def _heartbeat(self, watch: _Watch) -> None:
        """The master has nothing after `next_offset`, or does not have that offset at all."""
        replica, report = self._replica, self.report
        if not replica.is_joined:
            why = f"its log ends before, or its files from offset {replica.next_offset} on were removed"
            raise not_there(report.master, report.path, replica.end_offset, why)
        if not watch.largest and not watch.is_checked:
            self._require_there()
            watch.is_checked = True

    def _require_there(self) -> None:
        """Raises `NotAPrefixError` if a master that sent nothing yet has a log elsewhere: it sends
        the start of its last file to whoever asks for offset 0."""
        end, report = self._replica.end_offset, self.report
        found = last_file_offset(self._host, self._port, self._timing)
        if found > end:
            raise not_there(
                report.master, report.path, end, f"its last file begins at {found}, older ones were removed"
            )
        if found < end - end % self.store.core.log.file_size_bytes:
            raise not_there(report.master, report.path, end, f"its last file begins at {found}")

    # -- closing ----------------------------------------------------------------------------------
    def close(self) -> None:
        """Closes the store. No thread may be in `run`."""
        self.store.close()

    def __enter__(self) -> Follower:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(slots=True)
class _Watch:
    """What one connection has brought."""

    largest: int = 0
    """The size of the largest transfer."""
    is_checked: bool = False
    """Whether a master that sent nothing was asked where its log is."""
