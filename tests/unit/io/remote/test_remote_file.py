"""Files that fsspec reads: ranges, what is refused, and what happens when a file changes under its
reader."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from logdex.errors import (
    EnvironmentProblem,
    StorageError,
    UnreadableError,
    UnusableFileError,
    UsageError,
    VanishedError,
)
from logdex.io.env import Env
from logdex.io.mapped.partly_loaded import forget_before, load, loaded_part, longer_part
from logdex.io.remote import remote_file
from logdex.io.remote.file_systems import _status_of
from tests import remote

DATA = bytes(range(256)) * 256


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(DATA)
    with remote.in_memory(tmp_path) as found:
        yield found


def test_looking(url: str) -> None:
    env = Env()
    assert env.list_dir(url) == ["below"]
    assert env.list_dir(f"{url}/below") == ["file"]
    assert (env.is_dir(url), env.is_file(url), env.exists(f"{url}/none")) == (True, False, False)
    file = f"{url}/below/file"
    assert (env.is_dir(file), env.is_file(file), env.size_bytes(file)) == (False, True, len(DATA))
    assert env.identity(file) == env.open_read(file).identity
    stamp = env.stamp(file)
    assert stamp is not None
    assert (stamp.kind, stamp.size_bytes, stamp.modified_ns) == ("file", len(DATA), env.modified_ns(file))
    assert (env.stamp(f"{url}/none"), env.real_path(file), env.lock_is_held(file)) == (None, file, False)
    with pytest.raises(UnusableFileError):
        env.open_read(url)
    with pytest.raises(VanishedError):
        env.size_bytes(f"{url}/none")


def test_ranges_are_read_and_counted(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remote.small_parts(monkeypatch)
    env = Env()
    with env.open_read(f"{url}/below/file") as file:
        assert file.read_at(5000, 10) == DATA[5000:5010]
        assert env.counters.read_bytes == 4096
        assert file.read_at(4096, 4096) == DATA[4096:8192]
        assert env.counters.read_bytes == 4096, "the block is still there"
        assert file.read_at(len(DATA) - 5, 10) == DATA[-5:]
        assert file.read_at(len(DATA), 10) == b""
        assert file.read_at(0, len(DATA)) == DATA


def test_who_reads_on_needs_few_requests(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remote.small_parts(monkeypatch, 1024)
    monkeypatch.setattr(remote_file, "AHEAD_BYTES", 8 * 1024)
    env, read = Env(), []
    with env.open_read(f"{url}/below/file") as file:
        for position in (9300, 300, *range(1000, 40_000, 500), 65_000, 64_000):
            before = env.counters.read_bytes
            assert file.read_at(position, 400) == DATA[position : position + 400]
            read.append(env.counters.read_bytes - before)
    assert read[:2] == [1024, 1024], "one block where nothing beside it was read"
    assert 5 <= len([each for each in read[2:-2] if each]) <= 7
    assert read[-2:] == [1024, 1024], "not behind the end of the file"


def test_an_array_is_loaded_part_by_part(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remote.small_parts(monkeypatch)
    env = Env()
    with env.map_read(f"{url}/below/file", partly=True) as mapped:
        array = mapped.array
        assert (len(array), env.counters.read_bytes) == (len(DATA), 0)
        part = loaded_part(array, 100)
        assert part.tobytes()[100:] == DATA[100 : len(part)]
        longer = longer_part(array, part, 4000)
        assert len(longer) > len(part)
        assert longer.tobytes()[100:] == DATA[100 : len(longer)]
        forget_before(array, 4096)
        assert not array[:4096].any(), "the memory is free"
        load(array)
        assert array.tobytes() == DATA
    assert env.map_read(f"{url}/below/file").array.tobytes() == DATA


def test_a_file_that_changes_under_its_reader(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    remote.small_parts(monkeypatch)
    env, system, path = Env(), fsspec.filesystem("memory"), f"{url}/below/file"
    file, mapped = env.open_read(path), env.map_read(path, partly=True)
    system.pipe_file(path, DATA[:6000])
    assert file.read_at(4000, 4096) == DATA[4000:6000]
    with pytest.raises(UnreadableError, match="truncated to 6000 bytes"):
        load(mapped.array)
    assert file.size_now() == 6000
    system.rm(path)
    with pytest.raises(VanishedError):
        load(mapped.array, 8192, 9000)
    with pytest.raises(VanishedError):
        file.size_now()


def test_a_file_that_was_replaced_on_hdfs() -> None:
    """What webhdfs says of a file: its size may be the same."""
    said = {"type": "file", "size": 10, "length": 10, "fileId": 16390, "modificationTime": 1_795_643_710_607}
    first, again = (_status_of("webhdfs://name-node/store/file", dict(said)) for _ in range(2))
    assert first == again
    assert first.modified_ns == 1_795_643_710_607_000_000
    for change in ({"fileId": 16391}, {"modificationTime": 1_795_643_710_608}):
        assert _status_of("webhdfs://name-node/store/file", said | change).identity != first.identity


def test_nothing_is_written(url: str) -> None:
    env, path = Env(), f"{url}/below/file"
    for change in (env.open_write, env.make_dirs, env.remove, env.remove_tree, env.sync_dir, env.lock_file):
        with pytest.raises(StorageError, match="only read") as caught:
            change(path)
        assert caught.value.errno == errno.EROFS
    with pytest.raises(StorageError, match="only read"):
        env.rename(path, f"{url}/other")
    assert env.read_file(path, 1 << 20) == DATA


def test_what_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = pytest.importorskip("fsspec.registry")
    monkeypatch.delitem(registry._registry, "s3", raising=False)  # another test may have loaded it
    with pytest.raises(UsageError, match="nonesuch"):
        Env().exists("nonesuch://bucket/store")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(EnvironmentProblem, match=r"logdex\[remote\]"):
        Env().exists("s3://bucket/store")


def test_without_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fsspec", "fsspec.core"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(EnvironmentProblem, match=r"logdex\[remote\]"):
        Env().exists("memory://bucket/store")
