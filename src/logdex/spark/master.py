"""What a Spark master's address says: whether it is on this machine, and whether anything answers
there."""

from __future__ import annotations

import socket

from logdex.errors import EnvironmentProblem, UsageError

_STANDALONE = "spark://"
_CONNECT = "sc://"
_PORTS = {_STANDALONE: 7077, _CONNECT: 15002}
_HINT = "start the Spark master, or name a running one: --master spark://HOST:7077, or 'local[*]' for this machine"

_CONNECT_HINT = "start the server, or name a running one: --master sc://HOST:15002"


def is_local(master: str) -> bool:
    """Whether all of `master`'s processes run on this machine, so that no other machine
    connects."""
    return master.startswith(("local", "spark://127.", "spark://localhost:"))


def is_connect_server(master: str) -> bool:
    """Whether an address is that of a Spark Connect server, which has a master of its own."""
    return master.startswith(_CONNECT)


def check_reachable(master: str, timeout_s: float = 5) -> None:
    """Raises `EnvironmentProblem` if no host of a ``spark://`` master, or of the server of an
    ``sc://`` address, takes a connection.

    Spark itself tries for more than a minute. Other masters are not checked.
    """
    scheme = next((each for each in _PORTS if master.startswith(each)), None)
    if scheme is None:
        return
    what, reasons = "Spark Connect server" if scheme == _CONNECT else "Spark master", []
    for name in master.removeprefix(scheme).partition("/")[0].split(","):
        host, _, port = name.rpartition(":")
        try:
            address = (host.strip("[]") or name, int(port) if host else _PORTS[scheme])
        except ValueError:
            raise UsageError(f"{master} is no address of a {what}", hint=f"use {scheme}HOST:PORT") from None
        try:
            socket.create_connection(address, timeout_s).close()
            return
        except (OSError, OverflowError) as error:
            reasons.append(f"{name}: {_reason(error)}")
    hint = _CONNECT_HINT if scheme == _CONNECT else _HINT
    raise EnvironmentProblem(f"no {what} answers at {master} ({'; '.join(reasons)})", hint=hint)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (getattr(error, "strerror", None) or str(error)).lower()
