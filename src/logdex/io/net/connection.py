"""TCP connections with time limits. Refusals of the system become `ConnectionLostError`."""

from __future__ import annotations

import select
import socket
import time
from contextlib import suppress

from logdex.errors import ConnectionLostError, EnvironmentProblem, UsageError

PORT_MAX = 65_535
_PAUSE_S = 0.05
"""The pause after a connection could not be accepted, which may not change at once."""


def parse_address(text: str) -> tuple[str, int]:
    """Returns host and port of ``HOST:PORT``; an IPv6 host is in brackets. Raises `UsageError`."""
    host, colon, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) <= PORT_MAX
    if not colon or not host or not is_port or (":" in host and not (host[0] == "[" and host[-1] == "]")):
        raise UsageError(f"{text!r} is no address", hint="give HOST:PORT, such as 127.0.0.1:10912")
    return host.strip("[]"), int(port)


class Connection:
    """One TCP connection. One thread may send while another receives; any thread may call `abort`.

    `peer` is the other side's ``HOST:PORT``, for messages.
    """

    def __init__(self, own: socket.socket, peer: str, *, send_timeout_s: float) -> None:
        self.peer = peer
        self._socket = own
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own.settimeout(send_timeout_s)
        self._poll = select.poll()
        self._poll.register(own, select.POLLIN)

    @staticmethod
    def connect(host: str, port: int, *, timeout_s: float, send_timeout_s: float) -> Connection:
        """Connects to a listener within `timeout_s` seconds."""
        peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            own = socket.create_connection((host, port), timeout_s)
            return _made(own, peer, send_timeout_s)
        except UnicodeError as error:  # while Python encodes the name for DNS
            raise UsageError(f"{peer} cannot be the name of a host", hint="give HOST:PORT") from error
        except OSError as error:
            raise ConnectionLostError(f"{peer}: {_reason(error)}", hint="is the master running there?") from error

    def send(self, data: bytes) -> None:
        """Sends all of `data`, within the time that the connection was made with."""
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ConnectionLostError(f"{self.peer}: {_reason(error)}") from error

    def receive(self, size_bytes: int, timeout_s: float) -> bytes:
        """Returns up to `size_bytes` bytes as soon as there are any; none if there are none for
        `timeout_s` seconds. Raises `ConnectionLostError` at the end of the connection."""
        try:
            if not self._poll.poll(timeout_s * 1000):
                return b""
            data = self._socket.recv(size_bytes)
        except OSError as error:
            raise ConnectionLostError(f"{self.peer}: {_reason(error)}") from error
        if not data:
            raise ConnectionLostError(f"{self.peer}: the connection was closed")
        return data

    def abort(self) -> None:
        """Ends the connection, so that threads that send or receive get an error."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the connection. No other thread may be using it."""
        self.abort()
        self._socket.close()


class Listener:
    """Accepts connections at an address; port 0 takes a free one. `host` and `port` are where it
    listens."""

    def __init__(self, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family)
        except OSError as error:
            raise EnvironmentProblem(
                f"cannot listen at {host}:{port}: {_reason(error)}", hint="choose another port; 0 takes a free one"
            ) from error
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def accept(self, timeout_s: float, *, send_timeout_s: float) -> Connection | None:
        """Returns the next connection, or None if there is none for `timeout_s` seconds, or if it
        ended before it was accepted."""
        if not self._poll.poll(timeout_s * 1000):
            return None
        try:
            own, address = self._socket.accept()
            return _made(own, f"{address[0]}:{address[1]}", send_timeout_s)
        except OSError:  # the other side is gone, or this process has too many files open
            time.sleep(_PAUSE_S)
            return None

    def close(self) -> None:
        """Stops listening. No thread may be in `accept`."""
        self._socket.close()


def _made(own: socket.socket, peer: str, send_timeout_s: float) -> Connection:
    """Returns the connection of a socket, which is closed if its other side is gone already."""
    try:
        return Connection(own, peer, send_timeout_s=send_timeout_s)
    except BaseException:
        own.close()
        raise


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror or str(error)).lower()
