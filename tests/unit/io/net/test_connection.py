"""TCP connections: what comes, what does not come in time, and ends."""

from __future__ import annotations

import threading
import time

import pytest

from logdex.errors import ConnectionLostError, EnvironmentProblem, UsageError
from logdex.io.net.connection import Connection, Listener, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:10912", ("127.0.0.1", 10912)), ("broker-a:1", ("broker-a", 1)), ("[::1]:65535", ("::1", 65535))],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "host", ":10912", "host:", "host:0", "host:65536", "host:-1", "::1:80", "h:1x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        parse_address(text)


def pair(send_timeout_s: float = 5) -> tuple[Connection, Connection]:
    listener = Listener("127.0.0.1", 0)
    ours = Connection.connect("127.0.0.1", listener.port, timeout_s=5, send_timeout_s=send_timeout_s)
    theirs = listener.accept(5, send_timeout_s=send_timeout_s)
    listener.close()
    assert theirs is not None
    return ours, theirs


def test_bytes_go_both_ways() -> None:
    ours, theirs = pair()
    ours.send(b"ping")
    assert theirs.receive(100, 5) == b"ping"
    theirs.send(b"pong")
    assert ours.receive(2, 5) == b"po"
    assert ours.receive(2, 5) == b"ng"
    ours.close()
    with pytest.raises(ConnectionLostError, match="was closed"):
        theirs.receive(1, 5)
    theirs.close()


def test_silence_is_no_end() -> None:
    ours, theirs = pair()
    begin = time.monotonic()
    assert ours.receive(1, 0.05) == b""
    assert time.monotonic() - begin >= 0.04
    ours.close()
    theirs.close()


def test_a_peer_that_takes_nothing_does_not_block_for_ever() -> None:
    ours, theirs = pair(send_timeout_s=0.1)
    with pytest.raises(ConnectionLostError, match="no answer in time"):
        ours.send(bytes(64 << 20))
    ours.close()
    theirs.close()


def test_abort_wakes_who_waits() -> None:
    ours, theirs = pair()
    threading.Timer(0.05, ours.abort).start()
    with pytest.raises(ConnectionLostError):
        ours.receive(1, 20)
    ours.close()
    theirs.close()


def test_nobody_listens() -> None:
    listener = Listener("127.0.0.1", 0)
    assert listener.accept(0, send_timeout_s=1) is None
    listener.close()
    with pytest.raises(ConnectionLostError, match=f"127.0.0.1:{listener.port}: connection refused"):
        Connection.connect("127.0.0.1", listener.port, timeout_s=5, send_timeout_s=5)


def test_a_port_that_is_taken() -> None:
    listener = Listener("127.0.0.1", 0)
    with pytest.raises(EnvironmentProblem, match="already in use"):
        Listener("127.0.0.1", listener.port)
    listener.close()
