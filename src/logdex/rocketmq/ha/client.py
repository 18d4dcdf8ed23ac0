"""`HAClient`: one connection of a slave to its master. Source: DefaultHAClient."""

from __future__ import annotations

import time

from logdex.errors import ConnectionLostError
from logdex.io.net.connection import Connection
from logdex.primitives.shown import repr_of
from logdex.rocketmq.ha.timing import HATiming
from logdex.rocketmq.ha.wire import LAST_FILE, Transfer, TransferDecoder, pack_report

_RECEIVE_BYTES = 1 << 20
_SLICE_S = 0.2


class HAClient:
    """Receives a master's log from `request_offset` on; from the start of its last file if that is
    0. For one thread.

    The request is the first report. Call `receive` again and again: it also repeats the last report
    when that is due. `ConnectionLostError` ends the connection; a new `HAClient` may go on.
    `ProtocolError` is raised if the other side is no master.
    """

    def __init__(self, connection: Connection, request_offset: int, timing: HATiming) -> None:
        self._closed = False
        self.request_offset = request_offset
        self.reported_offset = request_offset
        """What was reported last."""
        self._connection, self._timing = connection, timing
        self._decoder = TransferDecoder(connection.peer, None if request_offset == LAST_FILE else request_offset)
        self._came_s = time.monotonic()
        self.report(request_offset)

    def __repr__(self) -> str:
        return repr_of(self, self._connection.peer, f"reported offset {self.reported_offset}", is_closed=self._closed)

    @classmethod
    def connect(cls, host: str, port: int, request_offset: int, timing: HATiming) -> HAClient:
        """Connects to a master. Raises `ConnectionLostError` if there is none."""
        connection = Connection.connect(host, port, timeout_s=timing.connect_s, send_timeout_s=timing.idle_s)
        try:
            return cls(connection, request_offset, timing)
        except BaseException:
            connection.close()
            raise

    def report(self, max_offset: int) -> None:
        """Acknowledges the log up to `max_offset`."""
        self._connection.send(pack_report(max_offset))
        self.reported_offset, self._reported_s = max_offset, time.monotonic()

    def receive(self, timeout_s: float) -> list[Transfer]:
        """Returns the transfers that came, none after `timeout_s` seconds. The last one may have
        begun to come before. Raises `ConnectionLostError` if the master sent nothing whole for too
        long."""
        now_s = time.monotonic()
        if now_s - self._reported_s >= self._timing.heartbeat_s:
            self.report(self.reported_offset)
        transfers = self._decoder.feed(self._connection.receive(_RECEIVE_BYTES, timeout_s))
        if transfers:
            self._came_s = time.monotonic()
        elif time.monotonic() - self._came_s > self._timing.idle_s:
            raise ConnectionLostError(f"{self._connection.peer}: nothing came for {self._timing.idle_s:g} seconds")
        return transfers

    def close(self) -> None:
        """Ends the connection."""
        self._closed = True
        self._connection.close()


def last_file_offset(host: str, port: int, timing: HATiming) -> int:
    """Returns the physical offset at which the master's last file begins. Waits for its next
    heartbeat if that file is empty."""
    client = HAClient.connect(host, port, LAST_FILE, timing)
    try:
        while True:
            for transfer in client.receive(_SLICE_S):
                return transfer.physical_offset
    finally:
        client.close()
