"""Directories on file systems of fsspec, for tests."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from logdex.io.mapped import partly_loaded
from logdex.io.remote import remote_file

S3_KEYS = {"key": "test", "secret": "test"}


@dataclass
class Traffic:
    """The bytes of objects that a server has sent, by their paths in it, whoever asked."""

    sent: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.sent.values())

    def counting(self, app: Callable[..., Any]) -> Callable[..., Any]:
        """A WSGI application whose answers to GET are counted. Those without a file's name in the
        path are listings."""

        def counted(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
            for data in app(environ, start_response):
                if environ["REQUEST_METHOD"] == "GET" and environ["PATH_INFO"].count("/") > 2:
                    self.sent[environ["PATH_INFO"]] += len(data)
                yield data

        return counted


@contextmanager
def s3_server(traffic: Traffic | None = None) -> Iterator[dict[str, Any]]:
    """Yields the storage options of an S3-compatible server in this process: moto's. `traffic`
    counts what it sends."""
    server = pytest.importorskip("moto.server", reason="needs moto: pip install moto flask flask-cors")
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # it notes each request
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    if traffic is not None:
        running._server.app = traffic.counting(running._server.app)
    host, port = running.get_host_and_port()
    try:
        yield {**S3_KEYS, "endpoint_url": f"http://{host}:{port}"}
    finally:
        running.stop()


def uploaded(storage: dict[str, Any], root: Path, bucket: str) -> str:
    """The address of a copy of a directory in a bucket of S3."""
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec: pip install 'logdex[remote]'")
    system = fsspec.filesystem("s3", **storage)
    if not system.exists(bucket):
        system.mkdir(bucket)
    put_tree(system, root, f"{bucket}/{root.name}")
    return f"s3://{bucket}/{root.name}"


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
    """Copies the files of a directory, as an upload to an object store does: empty folders are left
    out."""
    for path in sorted(root.rglob("*")):
        if path.is_file():
            system.pipe_file(f"{target}/{path.relative_to(root)}", path.read_bytes())


def small_parts(monkeypatch: pytest.MonkeyPatch, size_bytes: int = 4096) -> None:
    """Has remote files read in blocks and parts of so many bytes, so that small files have many."""
    monkeypatch.setattr(remote_file, "BLOCK_BYTES", size_bytes)
    monkeypatch.setattr(remote_file, "AHEAD_BYTES", size_bytes)
    monkeypatch.setattr(remote_file, "_LOADED_BYTES", size_bytes)
    monkeypatch.setattr(partly_loaded, "PART_BYTES", size_bytes)
    monkeypatch.setattr(partly_loaded, "PART_BYTES_MAX", 4 * size_bytes)
