"""`HAService`: the master's side. It sends the log of an open `MessageStore` to its slaves, and
lets puts wait for them. Source: DefaultHAService, GroupTransferService.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import TracebackType

from logdex.errors import UsageError
from logdex.io.net.connection import Listener
from logdex.limits import HA_BODY_SIZE_BYTES_MAX
from logdex.primitives.shown import counted, repr_of
from logdex.rocketmq.ha.slave_connection import SlaveConnection
from logdex.rocketmq.ha.timing import HATiming
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import PutMessageStatus

_SLICE_S = 0.2
_SLAVES_MAX = 100
"""More connections at once are refused: each takes two threads."""
_SLAVE_GAP_BYTES_MAX = 256 << 20
"""haSlaveFallbehindMax: how far behind a slave may be before engines before 5.0 do not wait for
it."""


class HAService:
    """Serves slaves, of Logdex and of brokers, from `store` at `host` and `port` until it is
    closed; port 0 takes a free one. Close it before the store.

    `host` is loopback unless another one is given: there is no authentication, and whoever connects
    gets the whole log.

    With `in_sync_replicas` 2 or more, a put returns when that many stores have its message, this
    one included (inSyncReplicas; the other ones must acknowledge it), and otherwise
    FLUSH_SLAVE_TIMEOUT after `slave_timeout_ms`, or, before version 5.0, SLAVE_NOT_AVAILABLE at
    once if no slave is near. The message is in the log all the same. Messages with
    `wait_store_msg_ok` False do not wait. Thread-safe.
    """

    def __init__(
        self,
        store: MessageStore,
        host: str = "127.0.0.1",
        port: int = 10912,
        *,
        in_sync_replicas: int = 1,
        slave_timeout_ms: int = 3_000,
        transfer_batch_bytes: int = 32 << 10,
        timing: HATiming | None = None,
    ) -> None:
        if in_sync_replicas < 1:
            raise UsageError(f"in_sync_replicas must be 1 or more, got {in_sync_replicas}")
        if not 1 <= transfer_batch_bytes <= HA_BODY_SIZE_BYTES_MAX:
            raise UsageError(f"transfer_batch_bytes must be 1 to {HA_BODY_SIZE_BYTES_MAX}, got {transfer_batch_bytes}")
        self._core = store.core
        self._in_sync_replicas, self._slave_timeout_s = in_sync_replicas, slave_timeout_ms / 1000
        self._batch_bytes, self._timing = transfer_batch_bytes, timing or HATiming()
        self._changed = threading.Condition()
        self._slaves: list[SlaveConnection] = []
        self._closed = False
        self._listener = Listener(host, port)
        self.host, self.port = self._listener.host, self._listener.port
        self._acceptor = threading.Thread(target=self._accept, name="logdex-ha-accept", daemon=True)
        self._acceptor.start()
        if in_sync_replicas > 1:
            self._core.wait_slaves = self._wait_slaves

    def __repr__(self) -> str:
        return repr_of(self, f"{self.host}:{self.port}", counted(len(self._slaves), "slave"), is_closed=self._closed)

    @property
    def slaves(self) -> list[SlaveConnection]:
        """The slaves that are connected now."""
        with self._changed:
            return list(self._slaves)

    # -- connections ------------------------------------------------------------------------------
    def _accept(self) -> None:
        while not self._closed:
            connection = self._listener.accept(_SLICE_S, send_timeout_s=self._timing.idle_s)
            if connection is not None and len(self._slaves) >= _SLAVES_MAX:
                connection.close()
            elif connection is not None:
                slave = SlaveConnection(
                    connection, self._core, self._changed, self._timing, self._batch_bytes, self._forget
                )
                with self._changed:
                    self._slaves.append(slave)
                slave.start()

    def _forget(self, slave: SlaveConnection) -> None:
        with self._changed:
            if slave in self._slaves:
                self._slaves.remove(slave)
            self._changed.notify_all()

    # -- waiting ----------------------------------------------------------------------------------
    def _acknowledged(self) -> Iterator[int]:
        return (slave.acknowledged_offset for slave in self._slaves)

    def _wait_slaves(self, end_offset: int) -> PutMessageStatus:
        """Waits until enough slaves have the log up to `end_offset`."""
        until = time.monotonic() + self._slave_timeout_s
        with self._changed:
            if not self._core.config.dialect.waits_for_slaves:
                nearest = max(self._acknowledged(), default=None)
                if nearest is None or end_offset - nearest >= _SLAVE_GAP_BYTES_MAX:
                    return PutMessageStatus.SLAVE_NOT_AVAILABLE
            self._changed.notify_all()  # those that send look at the log at once
            while sum(offset >= end_offset for offset in self._acknowledged()) < self._in_sync_replicas - 1:
                left = until - time.monotonic()
                if left <= 0 or self._closed:
                    return PutMessageStatus.FLUSH_SLAVE_TIMEOUT
                self._changed.wait(left)
        return PutMessageStatus.PUT_OK

    # -- closing ----------------------------------------------------------------------------------
    def close(self) -> None:
        """Ends all connections. Puts no longer wait for slaves."""
        if self._closed:
            return
        self._core.wait_slaves = None
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._acceptor.join()
        self._listener.close()
        for slave in self.slaves:
            slave.stop()

    def __enter__(self) -> HAService:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
