"""Directories compared as a whole: what a test must find unchanged, or the same as somewhere else."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path


def contents(root: Path) -> dict[str, bytes]:
    """The bytes of every file below `root`, by its path from there."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def digests(root: Path) -> dict[str, str]:
    """The SHA-256 of every file below `root`, by its path from there."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in contents(root).items()}


def tree_hash(root: Path) -> str:
    """A digest over names, modes, modification times and bytes of `root` and everything below it."""
    digest, skipped = hashlib.sha256(), len(str(root))
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in [".", *sorted(names)]:
            path = f"{folder}/{name}"
            status = os.lstat(path)
            told = f"{path[skipped:]}\0{status.st_mode}\0{status.st_mtime_ns}\0{status.st_size}\0"
            digest.update(told.encode("utf-8", "surrogateescape"))
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    digest.update(file.read())
    return digest.hexdigest()
