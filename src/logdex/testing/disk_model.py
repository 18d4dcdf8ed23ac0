"""The model of a disk that `FaultEnv` keeps: files, directories, and changes of names that a power
cut may undo."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class FileNode:
    """The contents of one file.

    `synced` is what a power cut cannot take; None: the current contents. `between` is the contents
    after each write since then. `gone` is the last contents of a file that no longer has a name,
    and `gone_ns` its modification time.
    """

    synced: bytes | None = None
    between: list[bytes] = field(default_factory=list)
    gone: bytes = b""
    gone_ns: int = 0


@dataclass(eq=False, slots=True)
class DirNode:
    """A directory: what its names lead to."""

    names: dict[str, Node] = field(default_factory=dict)


Node = FileNode | DirNode
Entries = dict[DirNode, dict[str, Node]]


@dataclass(frozen=True, slots=True)
class NameChange:
    """`name` in `parent` changed from `before` to `node` (None: absent). `source` is a rename's
    source."""

    parent: DirNode
    name: str
    node: Node | None
    before: Node | None
    source: tuple[DirNode, str] | None = None

    @property
    def entries(self) -> set[tuple[DirNode, str]]:
        """The names that this changed."""
        return {(self.parent, self.name)} | ({self.source} if self.source else set())

    def undo(self, entries: Entries) -> None:
        """Undoes the change in `entries`, the names of each directory."""
        names = entries[self.parent]
        if names.get(self.name) is not self.node:
            return  # a later rename, which is kept, has moved it
        if self.source is not None and self.node is not None:
            entries[self.source[0]][self.source[1]] = self.node
        if self.before is None:
            names.pop(self.name, None)
        else:
            names[self.name] = self.before


@dataclass(frozen=True, slots=True)
class Exchange(NameChange):
    """`source` and `name` in `parent` were exchanged: `node` was at `source`, `before` at
    `name`."""

    def undo(self, entries: Entries) -> None:
        """Undoes the change in `entries`, the names of each directory."""
        assert self.source is not None
        names, others = entries[self.parent], entries[self.source[0]]
        if names.get(self.name) is self.node and others.get(self.source[1]) is self.before:
            assert self.node is not None
            assert self.before is not None
            names[self.name], others[self.source[1]] = self.before, self.node
