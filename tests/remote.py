"""Directories on file systems of fsspec, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from logdex.io.mapped import partly_loaded
from logdex.io.remote import remote_file


@contextmanager
def in_memory(root: Path, name: str = "store") -> Iterator[str]:
    """Yields the address of a copy of a directory in fsspec's file system in memory."""
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec: pip install 'logdex[remote]'")
    system = fsspec.filesystem("memory")
    try:
        put_tree(system, root, f"/{name}")
        yield f"memory://{name}"
    finally:
        if system.exists(f"/{name}"):
            system.rm(f"/{name}", recursive=True)


def put_tree(system: Any, root: Path, target: str) -> None:
    """Copies the files of a directory, as an upload to an object store does: empty folders are left out."""
    for path in sorted(root.rglob("*")):
        if path.is_file():
            system.pipe_file(f"{target}/{path.relative_to(root)}", path.read_bytes())


def small_parts(monkeypatch: pytest.MonkeyPatch, size_bytes: int = 4096) -> None:
    """Has remote files read in blocks and parts of so many bytes, so that small files have many."""
    monkeypatch.setattr(remote_file, "BLOCK_BYTES", size_bytes)
    monkeypatch.setattr(remote_file, "_LOADED_BYTES", size_bytes)
    monkeypatch.setattr(partly_loaded, "PART_BYTES", size_bytes)
    monkeypatch.setattr(partly_loaded, "PART_BYTES_MAX", 4 * size_bytes)
