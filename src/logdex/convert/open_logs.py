"""The logs of many partitions, of which some are open at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack

from logdex.io.env import Env
from logdex.io.open_files import OpenShare
from logdex.kafka.log.log import Log

OPEN_MAX = 100
"""How many logs are open at once if the process may have enough open files."""
_SHARE = OpenShare(OPEN_MAX, files_each=5)
"""A log has its last segment and that one's indexes open, and for a moment what it reads."""


class OpenLogs:
    """Logs that are opened by name when they are needed. The least recently used one is closed
    first. For one thread."""

    def __init__(self, open_log: Callable[[str], Log], env: Env) -> None:
        self._open_log = open_log
        self._env = env
        self._logs: OrderedDict[str, Log] = OrderedDict()

    def log(self, name: str) -> Log:
        """Returns an open log. It may be closed by the next call."""
        log = self._logs.get(name)
        if log is not None:
            self._logs.move_to_end(name)
            return log
        while len(self._logs) >= _SHARE.of(self, self._env):
            self._logs.popitem(last=False)[1].close()
        log = self._logs[name] = self._open_log(name)
        return log

    def close(self) -> None:
        """Closes all logs."""
        with ExitStack() as stack:
            stack.callback(_SHARE.leave, self)
            for log in self._logs.values():
                stack.callback(log.close)
