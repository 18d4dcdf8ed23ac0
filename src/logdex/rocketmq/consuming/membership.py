"""Who is a member of a group, and which queues each member has taken.

A member locks a file of its own for as long as it lives, and states in a second file what it has
taken. The system drops the lock of a process that dies, and what that member had taken is free. A
queue is given up by its member before another takes it, so that no two consume it at a time.

Source: RebalanceImpl.rebalanceByTopic.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import finalize

from logdex.errors import LogInUseError
from logdex.io.atomic_file import TEMPORARY_SUFFIX
from logdex.io.env import Env
from logdex.io.process_lock import LockHolder, ProcessLock, lock_is_held, take_lock
from logdex.primitives.text import to_bytes
from logdex.rocketmq.consuming.allocation import allocate_averagely
from logdex.rocketmq.consuming.home import consuming_lock, group_dir

Queue = tuple[bytes, int]
"""Topic and queue id."""
_LOCKED, _TAKEN = ".member", ".json"
_FILE_SIZE_BYTES_MAX = 1 << 24
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Member:
    """A member as its file states: the topics that it consumes, and the queues that it has
    taken."""

    topics: frozenset[bytes]
    taken: frozenset[Queue]


class Membership:
    """One member of a group, until `leave` or until nothing refers to it. For one thread at a
    time."""

    def __init__(self, root: str, group: str, topics: Sequence[bytes], env: Env) -> None:
        self._root, self._env = root, env
        self._directory = group_dir(root, group)
        self._topics = frozenset(topics)
        self._taken: frozenset[Queue] = frozenset()
        self._has_left = False
        # Members are ordered by their names, so by the time at which they came.
        self.name = f"{time.time_ns():020d}-{os.getpid()}-{next(_numbers)}"
        with consuming_lock(root, env):
            env.make_dirs_durably(self._directory)
            lock = take_lock(f"{self._directory}/{self.name}{_LOCKED}", env=env)
            if isinstance(lock, LockHolder):
                raise LogInUseError("the new member's file is locked", path=self._directory)
            self._lock: ProcessLock = lock
            finalize(self, lock.release)  # the others see that it is dead; more, while garbage is collected, could wait
            try:
                self._write(self._taken)
            except BaseException:
                lock.release()
                raise

    @property
    def is_own(self) -> bool:
        """Whether this process joined the group; False in a child that was forked later."""
        return self._lock.is_own

    def share(self, queues: Mapping[bytes, Sequence[int]]) -> frozenset[Queue]:
        """Gives up what is no longer this member's part of the queues, takes what is and is free,
        and returns what this member has then."""
        with consuming_lock(self._root, self._env):
            others = live_members(self._root, self._directory, self._env, own=self.name)
            busy = {queue for other in others.values() for queue in other.taken}
            part: set[Queue] = set()
            for topic in self._topics:
                names = sorted([self.name, *(name for name, each in others.items() if topic in each.topics)])
                own = allocate_averagely(queues.get(topic, ()), names, self.name)
                part |= {(topic, queue_id) for queue_id in own}
            taken = frozenset(part - busy)
            if taken != self._taken:
                self._write(taken)
                self._taken = taken
        return taken

    def _write(self, taken: frozenset[Queue]) -> None:
        """Replaces this member's file. Nobody needs it after a power cut."""
        ids: dict[str, list[int]] = {_text(topic): [] for topic in self._topics}
        for topic, queue_id in sorted(taken):
            ids[_text(topic)].append(queue_id)
        path = f"{self._directory}/{self.name}{_TAKEN}"
        with self._env.open_write(f"{path}{TEMPORARY_SUFFIX}") as file:
            file.truncate(0)
            file.write_at(0, json.dumps(ids).encode())
        self._env.rename(f"{path}{TEMPORARY_SUFFIX}", path)

    def leave(self) -> None:
        """Gives up everything. Does nothing in a forked child, or a second time."""
        if not self._lock.is_own or self._has_left:
            return
        self._has_left = True
        try:
            with consuming_lock(self._root, self._env):
                _remove(self._directory, self.name, self._env)
        finally:
            self._lock.release()


def live_members(root: str, directory: str, env: Env, *, own: str = "") -> dict[str, Member]:
    """The members of a group but `own`; removes the files of those that died. The caller holds the
    lock of the store's consumers."""
    members = {}
    for file in env.list_dir(directory) if env.is_dir(directory) else ():
        name = file.removesuffix(_LOCKED)
        if name in (file, own):
            continue
        if lock_is_held(f"{directory}/{file}", env=env) is False:
            _remove(directory, name, env)
        else:
            members[name] = _read(f"{directory}/{name}{_TAKEN}", env)
    return members


def has_members(root: str, group: str, env: Env) -> bool:
    """Whether a group has live members. Changes nothing."""
    directory = group_dir(root, group)
    files = env.list_dir(directory) if env.is_dir(directory) else []
    locks = (f"{directory}/{file}" for file in files if file.endswith(_LOCKED))
    return any(lock_is_held(path, env=env) is not False for path in locks)


def _remove(directory: str, name: str, env: Env) -> None:
    for suffix in (f"{_TAKEN}{TEMPORARY_SUFFIX}", _TAKEN, _LOCKED):
        if env.exists(f"{directory}/{name}{suffix}"):
            env.remove(f"{directory}/{name}{suffix}")


def _read(path: str, env: Env) -> Member:
    """What a live member's file states. Only Logdex writes it, and never while another reads it."""
    taken = json.loads(env.read_file(path, _FILE_SIZE_BYTES_MAX))
    names = {text: to_bytes(text) for text in taken}
    queues = frozenset((names[text], queue_id) for text, ids in taken.items() for queue_id in ids)
    return Member(frozenset(names.values()), queues)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
