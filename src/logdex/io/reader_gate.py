"""Lets readers run beside a writer that sometimes truncates, renames or removes files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager


class _Reading:
    """What `ReaderGate.reading` returns. It is no generator, because reading a message is hardly
    more than one system call."""

    __slots__ = ("_gate",)

    def __init__(self, gate: ReaderGate) -> None:
        self._gate = gate

    def __enter__(self) -> None:
        gate = self._gate
        with gate._lock:
            while gate._excluding:
                gate._changed.wait()
            gate._readers += 1

    def __exit__(self, *_: object) -> None:
        gate = self._gate
        with gate._lock:
            gate._readers -= 1
            if gate._excluding:
                gate._changed.notify_all()


class ReaderGate:
    """Allows either any number of readers or one thread that excludes them and has priority.

    A thread that reads must not call `excluding`. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._readers = 0
        self._excluding = 0

    def reading(self) -> AbstractContextManager[None]:
        """Prevents changes to what readers use during the block. Keep the block short."""
        return _Reading(self)

    @contextmanager
    def excluding(self) -> Iterator[None]:
        """Keeps readers out during the block. Only one thread at a time may call it; it may nest
        blocks."""
        with self._changed:
            self._excluding += 1
        try:
            with self._changed:
                while self._readers:
                    self._changed.wait()
            yield
        finally:
            with self._changed:
                self._excluding -= 1
                self._changed.notify_all()
