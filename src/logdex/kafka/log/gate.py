"""Readers beside a change of what they read: files are cut, renamed or removed while nobody looks into them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ReaderGate:
    """Any number of readers, or one that excludes them. Who excludes is preferred; a reader must not ask to exclude."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._excluding = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """For the block, nothing is changed that readers look at. Keep it short."""
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
        """For the block, nobody reads. One thread at a time; within itself again."""
        with self._changed:
            self._excluding += 1
            while self._readers:
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                self._excluding -= 1
                self._changed.notify_all()
