"""Files of segments whose names are not those of their offsets: somebody has changed the names.

A broker names a segment by the first offset that it may hold, in 20 digits. Compaction may remove
that record, so the first batch may begin behind this offset, but never before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import closing
from typing import NamedTuple

from logdex.errors import StoreError
from logdex.io.env import Env
from logdex.kafka.files.file_names import (
    INDEX_SUFFIX,
    KEY_INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    offset_file_name,
    parse_offset_file,
)
from logdex.kafka.scan.scanner import BatchScanner
from logdex.layout.kafka import MAGIC_V2

_SUFFIXES = (*SEGMENT_SUFFIXES, KEY_INDEX_SUFFIX)
_SPARSE_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
_NUMBER = re.compile(r"[0-9]{1,40}")


class Misnamed(NamedTuple):
    """A file of a segment: its name, and the parts of the name that it should have. `is_free`
    states whether no other file has that name."""

    name: str
    base_offset: int
    suffix: str
    is_free: bool

    @property
    def right_name(self) -> str:
        """The name that it should have."""
        return offset_file_name(self.base_offset, self.suffix)

    @property
    def is_log(self) -> bool:
        """Whether it is a .log."""
        return self.suffix == LOG_SUFFIX


class _Head(NamedTuple):
    """The first batch of a .log, and the base offset of the second one; -1 without a second."""

    first: int
    last: int
    second: int


def misnamed_files(directory: str, names: Iterable[str], env: Env) -> dict[str, Misnamed]:
    """Returns the files among a partition's `names` that should have another name, by their names.

    A file is left out if its right name is not known. A .log that a broker would read is returned
    only if its batches leave no doubt and its right name is free, and so are its indexes with it.
    """
    naming = _Naming(directory, frozenset(names), env)
    naming.name_loose()
    naming.name_contradicting()
    return naming.moved


class _Naming:
    """The right names of one partition's files. `moved` holds those that should have another."""

    def __init__(self, directory: str, names: frozenset[str], env: Env) -> None:
        self.moved: dict[str, Misnamed] = {}
        self._directory = directory
        self._names = names
        self._taken = set(names)
        self._env = env
        known = [parsed for name in names if (parsed := parse_offset_file(name)) is not None]
        self._bases = {base for base, suffix in known if suffix == LOG_SUFFIX}
        self._orphans = {base for base, suffix in known if suffix in _SPARSE_SUFFIXES} - self._bases

    def name_loose(self) -> None:
        """Names the files that are named by no offset in 20 digits: a .log, and its indexes."""
        loose = sorted(name for name in self._names if parse_offset_file(name) is None)
        bases: dict[str, int] = {}
        for name in (name for name in loose if name.endswith(LOG_SUFFIX)):
            stem = name.removesuffix(LOG_SUFFIX)
            base = _base_of(_number_of(stem), self._head(name), self._bases, self._orphans)
            if base is not None:
                bases[stem] = base
                self._move(name, base, LOG_SUFFIX)
        for name in loose:
            stem, dot, suffix = name.rpartition(".")
            base = bases.get(stem, _number_of(stem))
            if dot + suffix in _SUFFIXES and name not in self.moved and base is not None:
                self._move(name, base, dot + suffix)

    def name_contradicting(self) -> None:
        """Names the files of segments whose batches contradict their name."""
        for base in sorted(self._bases):
            name = offset_file_name(base, LOG_SUFFIX)
            head = self._head(name)
            right = None if head is None else _contradicting(base, head, self._bases, self._orphans, self._taken)
            if right is None or offset_file_name(right, LOG_SUFFIX) in self._taken:
                continue
            for suffix in _SUFFIXES:
                beside = offset_file_name(base, suffix)
                if beside in self._names and offset_file_name(right, suffix) not in self._taken:
                    self._move(beside, right, suffix)

    def _move(self, name: str, base_offset: int, suffix: str) -> None:
        right = offset_file_name(base_offset, suffix)
        self.moved[name] = Misnamed(name, base_offset, suffix, right not in self._taken)
        self._taken.add(right)

    def _head(self, name: str) -> _Head | None:
        return _head(f"{self._directory}/{name}", self._env)


def _number_of(stem: str) -> int | None:
    """Returns the offset that a name before its suffix states, in too few or too many digits."""
    return int(stem) if _NUMBER.fullmatch(stem) and int(stem) < 1 << 63 else None


def _head(path: str, env: Env) -> _Head | None:
    """Returns what a .log begins with; None if that is no whole batch, or one that does not state
    its first offset, as the wrappers of magic 0 and 1."""
    try:
        scanner = BatchScanner(window_batches=2, env=env, unreadable_is_damage=True)
        with closing(scanner.scan_file(path)) as windows:
            window = next(windows, None)
    except StoreError:
        return None
    if window is None or window.columns.magic[0] < MAGIC_V2:
        return None
    first, last = int(window.columns.base_offset[0]), int(window.columns.last_offset[0])
    if not 0 <= first <= last:
        return None
    return _Head(first, last, int(window.columns.base_offset[1]) if window.count > 1 else -1)


def _base_of(number: int | None, head: _Head | None, bases: set[int], orphans: set[int]) -> int | None:
    """Returns the base offset of a .log: that of its first batch if an index of it is there, or
    else the number in its name, unless the batch contradicts it or a .log has it, or else that of
    the nearest index without a .log, or of the batch."""
    if head is None:
        return number
    if head.first in orphans:
        return head.first
    if number is not None and number <= head.first and number not in bases:
        return number
    return max((base for base in orphans if base <= head.first), default=head.first)


def _contradicting(base: int, head: _Head, bases: set[int], orphans: set[int], names: set[str]) -> int | None:
    """Returns the offset by which a .log named `base` should be named, if its batches contradict
    the name, or if it has no index and the one of its first offset has no .log.

    No checksum covers a batch's offset, so a batch before the name may be a damaged one. It is not
    if between the name and what follows there would be no room for it.
    """
    is_bare = not any(offset_file_name(base, suffix) in names for suffix in _SPARSE_SUFFIXES)
    if head.first != base and is_bare and head.first in orphans:
        return head.first
    behind = head.second if head.second >= 0 else min((each for each in bases if each > base), default=-1)
    return head.first if head.first < base and head.last < behind <= base + head.last - head.first else None
