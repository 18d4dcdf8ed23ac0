"""Lets readers run beside a writer that sometimes truncates, renames or removes files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ReaderGate:
    """Allows either any number of readers or one thread that excludes them and has priority.

    A thread that reads must not call `excluding`. Thread-safe.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._excluding = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Prevents changes to what readers use during the block. Keep the block short."""
        with self._changed:
            while self._excluding:
                self._changed.wait()
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

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
