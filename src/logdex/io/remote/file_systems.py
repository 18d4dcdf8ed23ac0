"""File systems that fsspec reaches: what is at a path, the names in a directory, ranges of bytes.

Nothing is written. Credentials, endpoints and the like are fsspec's own: its configuration files,
its environment variables, or storage options, as of `fsspec.filesystem`. Sources: fsspec's
AbstractFileSystem, s3fs's S3FileSystem.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from logdex.errors import EnvironmentProblem, LogdexError, StorageError, UsageError, VanishedError
from logdex.io.remote.block_cache import BlockCache
from logdex.io.remote.schemes import root_of, scheme_of

LISTINGS_EXPIRE_S = 2
"""How long fsspec may answer from a listing that it has made. Looking at a directory asks for many
names of it."""
_S3_DEFAULTS = {"config_kwargs": {"connect_timeout": 5, "read_timeout": 30, "retries": {"total_max_attempts": 3}}}
"""botocore's own limits, with s3fs's retries, leave an endpoint that does not answer unreported for
minutes."""
_MODIFIED = ("LastModified", "mtime", "last_modified", "modified", "created")
_MODIFIED_MS = "modificationTime"
"""As webhdfs states it."""
_STAMPS = ("ETag", "etag", "version_id", "fileId", *_MODIFIED, _MODIFIED_MS)
_OPEN_OPTIONS: Mapping[str, Mapping[str, Any]] = {"webhdfs": {"block_size": 1}}
"""How files are opened for a range, by scheme: fsspec's webhdfs reads 5 MiB further by default."""
_CREDENTIALS_HINT = "check the credentials: they are those of fsspec, from its configuration or the storage options"


@dataclass(frozen=True, slots=True)
class RemoteStatus:
    """What is at a path."""

    is_dir: bool
    size_bytes: int
    modified_ns: int
    identity: tuple[int, int]
    """Differs if the bytes were replaced, as far as the file system tells. It is the same in all
    processes."""


class RemoteFileSystems:
    """All remote file systems, by the scheme and the host or bucket of a path. Thread-safe."""

    def __init__(self, storage: Mapping[str, Any] | None = None) -> None:
        self.storage = dict(storage or {})
        self.blocks = BlockCache()
        self._opened: dict[tuple[int, str], Any] = {}

    def __reduce__(self) -> tuple[type[RemoteFileSystems], tuple[dict[str, Any]]]:
        """Another process opens them anew, with blocks of its own."""
        return RemoteFileSystems, (self.storage,)

    def status(self, path: str) -> RemoteStatus | None:
        """Returns what is at a path, None if nothing is."""
        system = self._system_of(path)
        try:
            with _translated(path):
                return _status_of(path, system.info(system._strip_protocol(path)))
        except VanishedError:
            return None

    def list_dir(self, path: str) -> list[str]:
        """Returns the sorted names in a directory."""
        system = self._system_of(path)
        with _translated(path):
            inner = system._strip_protocol(path).rstrip("/")
            entries = system.ls(inner, detail=True)
        below = (entry["name"].rstrip("/") for entry in entries)
        names = sorted({name.rpartition("/")[2] for name in below if name.strip("/") != inner.strip("/")})
        if not names and any(entry["type"] == "file" for entry in entries):
            raise StorageError("not a directory", path=path, errno=errno.ENOTDIR)
        return names

    def read(self, path: str, position: int, size_bytes: int) -> bytes:
        """Returns up to `size_bytes` bytes from `position`; fewer where the file ends."""
        system = self._system_of(path)
        with _translated(path):
            opened = _OPEN_OPTIONS.get(scheme_of(path) or "", {})
            data = system.cat_file(system._strip_protocol(path), start=position, end=position + size_bytes, **opened)
        return bytes(data)

    def _system_of(self, path: str) -> Any:
        # A file system with threads of its own does not outlive a fork, so each process opens it
        # anew.
        key = os.getpid(), root_of(path)
        system = self._opened.get(key)
        if system is None:
            system = self._opened[key] = _open_system(key[1], self.storage)
        return system


def _open_system(root: str, storage: Mapping[str, Any]) -> Any:
    scheme = scheme_of(root)
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise _not_installed(root) from None
    # fsspec makes one file system per set of options, whose listings may be older than what asks
    # here.
    defaults = {"listings_expiry_time": LISTINGS_EXPIRE_S, **(_S3_DEFAULTS if scheme in ("s3", "s3a") else {})}
    try:
        system = url_to_fs(f"{root}/", **{**defaults, **storage})[0]
        system.invalidate_cache()
        return system
    except ImportError as error:
        raise _not_installed(root, str(error)) from error
    except (ValueError, TypeError) as error:
        raise UsageError(f"{root}: {error}", hint="fsspec's page on this file system lists its options") from error
    except Exception as error:
        raise StorageError(_text_of(error), path=root, hint=_CREDENTIALS_HINT) from error


def _not_installed(root: str, why: str = "fsspec is not installed") -> EnvironmentProblem:
    hint = "pip install 'logdex[remote]', which brings fsspec, and s3fs for s3://; others name what they need"
    return EnvironmentProblem(f"{root} cannot be read: {why}", hint=hint)


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """Turns whatever a file system raises into a `StorageError`."""
    try:
        yield
    except LogdexError:
        raise
    except FileNotFoundError as error:
        raise VanishedError("no such file or directory", path=path, errno=errno.ENOENT) from error
    except PermissionError as error:
        raise StorageError(_text_of(error), path=path, errno=errno.EACCES, hint=_CREDENTIALS_HINT) from error
    except OSError as error:
        number = None if error.errno == errno.EIO else error.errno  # EIO would stand for a disk that fails
        raise StorageError(_text_of(error), path=path, errno=number) from error
    except Exception as error:  # each library has errors of its own
        raise StorageError(_text_of(error), path=path) from error


def _text_of(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return text.strip() or type(error).__name__


def _status_of(path: str, info: Mapping[str, Any]) -> RemoteStatus:
    stamps = "\n".join(str(info.get(name)) for name in ("size", *_STAMPS))
    identity = zlib.crc32(path.encode("utf-8", "surrogateescape")), zlib.crc32(stamps.encode())
    return RemoteStatus(info["type"] == "directory", int(info.get("size") or 0), _modified_ns(info), identity)


def _modified_ns(info: Mapping[str, Any]) -> int:
    for name in _MODIFIED:
        value = info.get(name)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1_000_000) * 1000
        if isinstance(value, int | float):
            return int(value * 1_000_000) * 1000
    return int(info.get(_MODIFIED_MS) or 0) * 1_000_000
