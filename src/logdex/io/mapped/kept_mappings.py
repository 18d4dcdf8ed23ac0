"""A bounded set of files that stay mapped between look-ups, shared by all threads of the process.

A log may have tens of thousands of segments, and a system allows a process some 65,000 mappings
(Linux: vm.max_map_count). So the files that were not used for the longest time are unmapped, and
mapped again when they are used.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from typing import Protocol

MAPPED_MAX = 256
"""Files that a process keeps mapped: the offset and time indexes of 128 segments."""


class Unmappable(Protocol):
    """A file that maps itself again when it is used. A thread that still reads its bytes holds
    them, so it may be unmapped at any moment."""

    was_used: bool
    """Set by each use, and unset here. So a use takes no lock."""

    def unmap(self) -> None:
        """Drops the mapping. Takes no lock."""


class KeptMappings:
    """The files that are mapped. Thread-safe. A file that nobody else refers to is not kept."""

    def __init__(self, mapped_max: int = MAPPED_MAX) -> None:
        self._mapped_max = mapped_max
        self._files: OrderedDict[int, weakref.ref[Unmappable]] = OrderedDict()
        self.renew_lock()

    def renew_lock(self) -> None:
        """Replaces the lock in a forked child: another thread of the parent may have held it."""
        self._lock = threading.Lock()

    def add(self, file: Unmappable) -> None:
        """Notes that `file` was mapped, and unmaps others if too many are."""
        with self._lock:
            self._put_last(weakref.ref(file), id(file))
            chances = len(self._files)  # other threads may use all of them all the time
            while len(self._files) > self._mapped_max:
                key, reference = self._files.popitem(last=False)
                oldest = reference()
                if oldest is None:
                    continue
                if oldest.was_used and chances > 0:
                    oldest.was_used = False
                    self._put_last(reference, key)
                    chances -= 1
                else:
                    oldest.unmap()

    def _put_last(self, reference: weakref.ref[Unmappable], key: int) -> None:
        self._files[key] = reference
        self._files.move_to_end(key)

    def forget(self, file: Unmappable) -> None:
        """Notes that `file` was closed."""
        with self._lock:
            self._files.pop(id(file), None)


KEPT_MAPPINGS = KeptMappings()
os.register_at_fork(after_in_child=KEPT_MAPPINGS.renew_lock)
