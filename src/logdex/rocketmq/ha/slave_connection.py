"""One slave of a master: a thread that sends it the log, and one that takes its reports.

Source: DefaultHAConnection.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from logdex.errors import ConnectionLostError, LogdexError, ProtocolError
from logdex.io.net.connection import Connection
from logdex.rocketmq.ha.timing import HATiming
from logdex.rocketmq.ha.wire import LAST_FILE, ReportDecoder, pack_transfer
from logdex.rocketmq.message_store.core import StoreCore

_SLICE_S = 0.2
_LOOK_S = 0.01
"""How often the log is looked at while there is nothing to send. Puts that wait for slaves wake who
sends."""
_RECEIVE_BYTES = 1 << 12


class SlaveConnection:
    """One connected slave. Its attributes may be read by any thread."""

    def __init__(
        self,
        connection: Connection,
        core: StoreCore,
        changed: threading.Condition,
        timing: HATiming,
        batch_bytes: int,
        ended: Callable[[SlaveConnection], None],
    ) -> None:
        self.address = connection.peer
        self.request_offset: int | None = None
        """What the slave asked for; None before its first report."""
        self.acknowledged_offset = -1
        """Up to where the slave has the log, as it reports."""
        self.sent_offset = -1
        """Up to where it was sent the log."""
        self.refused: str | None = None
        """Why the slave gets heartbeats alone."""
        self.ended_by: LogdexError | None = None
        """What ended the connection."""
        self._connection, self._core, self._changed = connection, core, changed
        self._timing, self._batch_bytes, self._ended = timing, batch_bytes, ended
        self._stopped = False
        self._sender = threading.Thread(target=self._run, args=(self._send,), name="logdex-ha-send", daemon=True)
        self._reader = threading.Thread(target=self._run, args=(self._read,), name="logdex-ha-read", daemon=True)

    def __repr__(self) -> str:
        state = f"refused: {self.refused}" if self.refused else f"sent to {self.sent_offset}"
        return f"<slave {self.address}, {state}, acknowledged {self.acknowledged_offset}>"

    def start(self) -> None:
        """Starts the threads."""
        self._sender.start()
        self._reader.start()

    def stop(self) -> None:
        """Ends the connection and its threads."""
        self._stopped = True
        self._connection.abort()
        with self._changed:
            self._changed.notify_all()
        self._sender.join()
        self._reader.join()
        self._connection.close()

    def _run(self, work: Callable[[], None]) -> None:
        """Works until the connection ends, then ends the other thread too. The reader, which ends
        last, closes the connection."""
        try:
            work()
        except LogdexError as error:
            self.ended_by = self.ended_by or error
        finally:
            self._stopped = True
            self._connection.abort()
            if work == self._read:
                self._ended(self)
                self._sender.join()
                self._connection.close()

    # -- reports ----------------------------------------------------------------------------------
    def _read(self) -> None:
        decoder, came_s = ReportDecoder(self.address), time.monotonic()
        while not self._stopped:
            offsets = decoder.feed(self._connection.receive(_RECEIVE_BYTES, _SLICE_S))
            if offsets:
                came_s = time.monotonic()
                self._take(offsets)
            elif time.monotonic() - came_s > self._timing.idle_s:
                raise ConnectionLostError(f"{self.address}: nothing came for {self._timing.idle_s:g} seconds")

    def _take(self, offsets: list[int]) -> None:
        with self._changed:
            if self.request_offset is None:
                self._begin(offsets[0])
            if self.refused is None:
                end = self._core.log.end_offset
                if max(offsets) > end:
                    raise ProtocolError(f"{self.address} acknowledged offset {max(offsets)}, the log ends at {end}")
                self.acknowledged_offset = offsets[-1]
            self._changed.notify_all()

    def _begin(self, request: int) -> None:
        """Chooses where to begin. A slave that asks for what is not there is sent nothing, as the
        engine does: bytes from elsewhere would harm its log."""
        log, first = self._core.log, self._core.reader.min_offset
        end = log.end_offset
        self.sent_offset = end - end % log.file_size_bytes if request == LAST_FILE else request
        if self.sent_offset > end:
            self.refused = f"it asks for offset {request}, the log ends at {end}"
        elif self.sent_offset < first:
            self.refused = f"it asks for offset {request}, the log begins at {first}"
        self.request_offset = request

    # -- the log ----------------------------------------------------------------------------------
    def _send(self) -> None:
        with self._changed:
            while self.request_offset is None and not self._stopped:
                self._changed.wait(_SLICE_S)
        said_s = 0.0  # the first heartbeat says that the slave has everything, or is refused
        while not self._stopped:
            body = b"" if self.refused else self._next_part()
            now_s = time.monotonic()
            if body:
                self._connection.send(pack_transfer(self.sent_offset, body))
                self.sent_offset += len(body)
                said_s = said_s and now_s
                continue
            if now_s - said_s >= self._timing.heartbeat_s:
                self._connection.send(pack_transfer(self.sent_offset))
                said_s = now_s
            with self._changed:
                if self.refused or self.sent_offset == self._core.log.end_offset:
                    self._changed.wait(_LOOK_S)

    def _next_part(self) -> bytes:
        """Returns the next bytes of the log, of one file, at most a batch; none at its end. Raises
        `MissingFileError` if they were removed, which ends the connection: when the slave asks for
        them again, it is refused."""
        core = self._core
        with core.gate.reading():
            core.require_open()
            log, at = core.log, self.sent_offset
            left = min(log.end_offset - at, log.file_size_bytes - at % log.file_size_bytes, self._batch_bytes)
            return core.reader.read(at, left) if left > 0 else b""
