"""`FaultEnv`: an `Env` that can refuse calls, be killed, and simulate a power cut.

Fault model:

- Every system call is one operation, counted from 1. At the n-th operation (of some kinds, or of
  all) the system refuses with an errno, once or from then on, or the process is killed: this and
  every later operation raise `Killed`, so that no cleanup reaches the disk, as after ``kill -9``.
  Earlier operations have taken effect.
- A **killed process** loses nothing that was written: the directory stays as it is.
- A **power cut** (`survivor`) loses any part of what was not synced; a seed chooses which part.
- Contents after a power cut: in a file that was open for writing since its last `sync` (or `flush`
  of its mapping), each page of 512 or 4,096 bytes has its synced contents, its latest contents, or
  those after any write or truncation in between (zeros where there were none). The same holds for
  the file's length. Writes through a mapping are not seen one by one, so a file counts as unsynced
  from its opening.
- Names after a power cut: each creation, rename or removal is kept or undone, until `sync_dir` of
  the directory (of a rename or an exchange: the target's). Changes of the same name keep their
  order. A rename is atomic, and so is an exchange. Syncing a file does not sync its name. POSIX
  promises neither; ext4 and XFS do more. Modification times are kept.
- Not modelled: wrong bytes in synced data, writes to a file that was renamed while open, symbolic
  links, other processes.

Contents are copied at each sync, so use small files. Change the root through this Env only, from
one thread.
"""

from __future__ import annotations

import os
import posixpath
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from logdex.io.env import DEFAULT_ENV, Env, ReadFile, WriteFile
from logdex.testing.disk_model import DirNode, Entries, Exchange, FileNode, NameChange, Node

CHANGES = frozenset(
    {
        *("open_write", "write_at", "truncate", "reserve", "map_write", "sync", "flush"),
        *("make_dirs", "rename", "link", "exchange", "remove", "remove_dir", "remove_tree", "sync_dir", "lock_file"),
    }
)
"""The kinds of operations that change the disk or make changes durable."""

_CONTENT_MAX = 1 << 30
_BETWEEN_MAX = 1 << 16
"""For larger files only the synced and the latest contents are known."""


class Killed(BaseException):
    """The simulated process is dead. This is no `Exception`, so that `except Exception` cannot
    catch it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault at the `at`-th operation (from 1) of `kinds` (None: any).

    The operation is refused with `errno`; if `errno` is None, the process is killed. With `lasting`
    every later operation of those kinds is refused as well.
    """

    at: int
    errno: int | None = None
    kinds: frozenset[str] | None = None
    lasting: bool = False


class FaultEnv(Env):
    """An Env over the directory `root` (absolute) with one `fault`; see the module's docstring.

    Operations outside `root` are counted and refused alike, but `survivor` does not copy them. Call
    `release` after a kill: it closes the files of the dead process and so releases its locks. For
    one thread.
    """

    def __init__(self, root: str, fault: Fault | None = None) -> None:
        super().__init__()
        self.root = root.rstrip("/")
        self.fault = fault
        self.log: list[tuple[str, str]] = []
        """The (kind, path) of each operation so far."""
        self.killed = False
        self.hits = 0
        """How often the fault has occurred."""
        self._matching = 0
        self._files: list[ReadFile | WriteFile] = []
        self._pending: list[NameChange] = []
        self._tree = self._read_tree(self.root) if DEFAULT_ENV.is_dir(self.root) else DirNode()

    # -- operations -------------------------------------------------------------------------------
    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        """As `Env.operation`; the fault occurs before the system call."""
        with super().operation(kind, path):
            self._strike(kind, path)
            yield
        if kind in ("sync", "flush"):
            node = self._find(path)
            if isinstance(node, FileNode):
                node.synced = DEFAULT_ENV.read_file(path, _CONTENT_MAX)
                node.between.clear()
        elif kind in ("write_at", "truncate"):
            node = self._find(path)
            if isinstance(node, FileNode) and DEFAULT_ENV.size_bytes(path) <= _BETWEEN_MAX:
                node.between.append(DEFAULT_ENV.read_file(path, _BETWEEN_MAX))
        elif kind == "sync_dir":
            node = self._find(path)
            self._pending = [change for change in self._pending if change.parent is not node]

    def _strike(self, kind: str, path: str) -> None:
        if self.killed:
            raise Killed
        self.log.append((kind, path))
        fault = self.fault
        if fault is None or (fault.kinds is not None and kind not in fault.kinds):
            return
        self._matching += 1
        if self._matching == fault.at or (fault.lasting and self._matching > fault.at):
            self.hits += 1
            if fault.errno is None:
                self.killed = True
                raise Killed
            raise OSError(fault.errno, os.strerror(fault.errno))

    def count(self, kinds: frozenset[str] | None = None) -> int:
        """The number of operations of `kinds`, or of any kind."""
        counts = Counter(kind for kind, _ in self.log)
        return counts.total() if kinds is None else sum(counts[kind] for kind in kinds)

    @property
    def open_paths(self) -> list[str]:
        """The files that were opened and not closed."""
        return [file.path for file in self._files if file._fd >= 0]

    def release(self) -> None:
        """Closes all files, as the system does for a process that has ended."""
        for file in self._files:
            file.close()

    def restart(self, fault: Fault | None = None) -> None:
        """Starts a new process on the same directory after a kill, without a power cut.

        `fault` applies to the new process, and counts its operations from 1.
        """
        self.release()
        self._files.clear()
        self.log.clear()
        self.fault, self.killed, self.hits, self._matching = fault, False, 0, 0

    # -- names ------------------------------------------------------------------------------------
    def open_read(self, path: str) -> ReadFile:
        """As `Env.open_read`."""
        file = super().open_read(path)
        self._files.append(file)
        return file

    def open_write(self, path: str, *, exclusive: bool = False) -> WriteFile:
        """As `Env.open_write`. The name of a file that this creates is not synced yet."""
        node = self._find(path)
        file = super().open_write(path, exclusive=exclusive)
        self._files.append(file)
        if node is None:
            self._change(path, FileNode(synced=b""))
        elif isinstance(node, FileNode) and node.synced is None:
            node.synced = DEFAULT_ENV.read_file(path, _CONTENT_MAX)
        return file

    def make_dirs(self, path: str) -> None:
        """As `Env.make_dirs`, with one operation per directory."""
        missing = []
        while not DEFAULT_ENV.exists(path):
            missing.append(path)
            path = posixpath.dirname(path) or "."
        if not missing:
            super().make_dirs(path)
        for path in reversed(missing):
            super().make_dirs(path)
            self._change(path, DirNode())

    def rename(self, source: str, target: str) -> None:
        """As `Env.rename`."""
        node, replaced = self._find(source), self._find(target)
        gone = self._last(target)
        super().rename(source, target)
        if isinstance(replaced, FileNode):
            replaced.gone, replaced.gone_ns = gone
        parent, name = self._place(source)
        if node is not None and parent is not None:
            parent.names.pop(name)
            self._change(target, node, (parent, name))

    def link(self, source: str, target: str) -> bool:
        """As `Env.link`."""
        is_linked = super().link(source, target)
        if is_linked:
            self._change(target, self._find(source))
        return is_linked

    def exchange(self, one: str, other: str) -> bool:
        """As `Env.exchange`."""
        is_exchanged = super().exchange(one, other)
        (parent, name), (target, target_name) = self._place(one), self._place(other)
        if is_exchanged and parent is not None and target is not None:
            node, before = parent.names[name], target.names[target_name]
            self._pending.append(Exchange(target, target_name, node, before, (parent, name)))
            parent.names[name], target.names[target_name] = before, node
        return is_exchanged

    def remove(self, path: str) -> None:
        """As `Env.remove`."""
        node, gone = self._find(path), self._last(path)
        super().remove(path)
        if isinstance(node, FileNode):
            node.gone, node.gone_ns = gone
            self._change(path, None)

    def _last(self, path: str) -> tuple[bytes, int]:
        """The contents and the modification time of a file that is about to lose its name."""
        if not isinstance(self._find(path), FileNode):
            return b"", 0
        return DEFAULT_ENV.read_file(path, _CONTENT_MAX), DEFAULT_ENV.modified_ns(path)

    def remove_tree(self, path: str) -> None:
        """As `Env.remove_tree`, with one operation per name, so that it can stop half-way."""
        if _is_own_dir(path):
            for name in self.list_dir(path):
                below = f"{path}/{name}"
                if _is_own_dir(below):
                    self.remove_tree(below)
                else:
                    self.remove(below)
        super().remove_tree(path)
        if isinstance(self._find(path), DirNode):
            self._change(path, None)

    def remove_dir(self, path: str) -> None:
        """As `Env.remove_dir`."""
        super().remove_dir(path)
        if isinstance(self._find(path), DirNode):
            self._change(path, None)

    def _change(self, path: str, node: Node | None, source: tuple[DirNode, str] | None = None) -> None:
        parent, name = self._place(path)
        if parent is None:
            return
        self._pending.append(NameChange(parent, name, node, parent.names.get(name), source))
        if node is None:
            parent.names.pop(name, None)
        else:
            parent.names[name] = node

    def _place(self, path: str) -> tuple[DirNode | None, str]:
        """The directory below the root that contains the path's last name, and that name."""
        directory, name = posixpath.split(path)
        parent = self._find(directory)
        return (parent if isinstance(parent, DirNode) else None), name

    def _find(self, path: str) -> Node | None:
        path = posixpath.normpath(path)
        if path == self.root:
            return self._tree
        if not path.startswith(f"{self.root}/"):
            return None
        node: Node | None = self._tree
        for name in path[len(self.root) + 1 :].split("/"):
            node = node.names.get(name) if isinstance(node, DirNode) else None
        return node

    def _read_tree(self, path: str) -> DirNode:
        """Reads the initial contents of `path`, which count as synced."""
        directory = DirNode()
        for name in DEFAULT_ENV.list_dir(path):
            below = f"{path}/{name}"
            directory.names[name] = self._read_tree(below) if DEFAULT_ENV.is_dir(below) else FileNode()
        return directory

    # -- the power cut ----------------------------------------------------------------------------
    def survivor(self, target: str, seed: int) -> None:
        """Writes what a power cut now could leave of `root` to `target`, which must not exist yet.

        Another seed chooses other losses. `root` itself stays as it is.
        """
        chance = random.Random(seed)
        lost = chance.choice((0.0, 0.2, 0.5, 0.8, 1.0))  # makes losing all or nothing likely as well
        entries: Entries = {}
        contents: dict[Node, tuple[bytes, int]] = {}
        self._collect(self._tree, self.root, entries, contents)
        for change in self._pending:
            for node in (change.parent, change.node, change.before, change.source and change.source[0]):
                if isinstance(node, DirNode):
                    entries.setdefault(node, dict(node.names))
        kept: set[tuple[DirNode, str]] = set()
        for change in reversed(self._pending):
            if chance.random() < lost and not change.entries & kept:
                change.undo(entries)
            else:
                kept |= change.entries
        self._write(self._tree, target, entries, contents, chance, lost)

    def _collect(
        self, directory: DirNode, path: str, entries: Entries, contents: dict[Node, tuple[bytes, int]]
    ) -> None:
        entries[directory] = dict(directory.names)
        contents[directory] = b"", DEFAULT_ENV.modified_ns(path)
        for name, node in directory.names.items():
            if isinstance(node, DirNode):
                self._collect(node, f"{path}/{name}", entries, contents)
            else:
                contents[node] = self._last(f"{path}/{name}")

    def _write(
        self,
        directory: DirNode,
        path: str,
        entries: Entries,
        contents: dict[Node, tuple[bytes, int]],
        chance: random.Random,
        lost: float,
    ) -> None:
        DEFAULT_ENV.make_dirs(path)
        for name, node in sorted(entries.get(directory, directory.names).items()):
            below = f"{path}/{name}"
            if isinstance(node, DirNode):
                self._write(node, below, entries, contents, chance, lost)
                continue
            now, modified_ns = contents.get(node, (node.gone, node.gone_ns))
            data = now if node.synced is None else torn([node.synced, *node.between], now, chance, lost)
            with DEFAULT_ENV.open_write(below) as file:
                file.write_at(0, data)
            DEFAULT_ENV.set_modified_ns(below, modified_ns)
        if directory in contents:
            DEFAULT_ENV.set_modified_ns(path, contents[directory][1])


def _is_own_dir(path: str) -> bool:
    """Whether `path` is a directory and no link to one."""
    stamp = DEFAULT_ENV.stamp(path)
    return stamp is not None and stamp.kind == "directory"


def torn(before: Sequence[bytes], now: bytes, chance: random.Random, lost: float) -> bytes:
    """`now` with some pages, and perhaps the length, from earlier contents (with probability
    `lost`)."""
    before = [each for each in dict.fromkeys(before) if each != now]
    if not before:
        return now
    page = chance.choice((512, 4096))

    def pick() -> bytes:
        return now if chance.random() >= lost else before[0] if chance.random() < 0.5 else chance.choice(before)

    size = len(pick())
    starts = range(0, size, page)
    return b"".join(pick()[start : start + page].ljust(page, b"\0") for start in starts)[:size]
