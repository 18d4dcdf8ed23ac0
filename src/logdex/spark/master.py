"""What a Spark master's address says: whether it is on this machine, and whether anything answers
there."""

from __future__ import annotations

import socket

from logdex.errors import EnvironmentProblem, UsageError

_STANDALONE = "spark://"
_PORT = 7077
_HINT = "start the Spark master, or name a running one: --master spark://HOST:7077, or 'local[*]' for this machine"


def is_local(master: str) -> bool:
    """Whether all of `master`'s processes run on this machine, so that no other machine
    connects."""
    return master.startswith(("local", "spark://127.", "spark://localhost:"))


def check_reachable(master: str, timeout_s: float = 5) -> None:
    """Raises `EnvironmentProblem` if no host of a ``spark://`` master takes a connection.

    Spark itself tries for more than a minute. Other masters are not checked.
    """
    if not master.startswith(_STANDALONE):
        return
    reasons = []
    for name in master.removeprefix(_STANDALONE).split(","):
        host, _, port = name.rpartition(":")
        try:
            address = (host.strip("[]") or name, int(port) if host else _PORT)
        except ValueError:
            raise UsageError(f"{master} is no address of a Spark master", hint="use spark://HOST:PORT") from None
        try:
            socket.create_connection(address, timeout_s).close()
            return
        except (OSError, OverflowError) as error:
            reasons.append(f"{name}: {_reason(error)}")
    raise EnvironmentProblem(f"no Spark master answers at {master} ({'; '.join(reasons)})", hint=_HINT)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (getattr(error, "strerror", None) or str(error)).lower()
