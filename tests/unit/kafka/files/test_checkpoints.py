from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from logdex.errors import CorruptError, StorageError, UnusableFileError
from logdex.io.atomic_file import write_atomically
from logdex.io.env import Env, WriteFile
from logdex.kafka.files.checkpoints import (
    TopicPartition,
    read_offset_checkpoint,
    split_checkpoint,
    write_offset_checkpoint,
)
from logdex.kafka.files.metadata_files import (
    CleanShutdown,
    MetaProperties,
    PartitionMetadata,
    uuid_from_text,
    uuid_to_text,
)


def test_an_offset_checkpoint_comes_back(tmp_path: Path) -> None:
    path = str(tmp_path / "recovery-point-offset-checkpoint")
    assert read_offset_checkpoint(path) == {}
    offsets = {TopicPartition("b.c", 10): 0, TopicPartition("a_-x", 0): (1 << 63) - 1}
    write_offset_checkpoint(path, offsets)
    assert Path(path).read_bytes() == b"0\n2\nb.c 10 0\na_-x 0 9223372036854775807\n"
    assert read_offset_checkpoint(path) == offsets
    assert str(next(iter(offsets))) == "b.c-10"
    write_offset_checkpoint(path, {})
    assert (Path(path).read_bytes(), read_offset_checkpoint(path)) == (b"0\n0\n", {})


@pytest.mark.parametrize("data", [b"", b"0\n", b"0"])
def test_a_checkpoint_without_a_count_is_empty(data: bytes) -> None:
    assert split_checkpoint(data) == []


@pytest.mark.parametrize(
    ("data", "line", "position"),
    [
        (b"1\n0\n", 1, 0),
        (b"x\n0\n", 1, 0),
        (b"0\n-1\n", 2, 2),
        (b"0\n2\nt 0 5\n", 2, 2),
        (b"0\n0\nt 0 5\n", 2, 2),
        (b"0\n99999999999999999999\n", 2, 2),
        (b"0\n1\nt 0\n", 3, 4),
        (b"0\n2\nt 0 5\nt x 5\n", 4, 10),
        (b"0\n1\nt 0 -5\n", 3, 4),
        (b"0\n1\nt 0 5\n\n", 2, 2),
        (b"0\n1\n\xff 0 5\n", 3, 4),
    ],
)
def test_malformed_checkpoints_are_located(tmp_path: Path, data: bytes, line: int, position: int) -> None:
    path = tmp_path / "log-start-offset-checkpoint"
    path.write_bytes(data)
    with pytest.raises(CorruptError) as caught:
        read_offset_checkpoint(str(path))
    assert (caught.value.path, caught.value.field, caught.value.position) == (str(path), f"line {line}", position)


class NoSyncEnv(Env):
    """Refuses to sync and to rename as it is told."""

    def __init__(self, refuse: str) -> None:
        super().__init__()
        self.refuse = refuse

    def open_write(self, path: str, *, exclusive: bool = False) -> WriteFile:
        file = super().open_write(path, exclusive=exclusive)
        if self.refuse == "sync":
            file.close()
        return file

    def rename(self, source: str, target: str) -> None:
        if self.refuse == "rename":
            raise StorageError("refused", path=source)
        super().rename(source, target)


@pytest.mark.parametrize("refuse", ["sync", "rename"])
def test_a_failed_write_leaves_the_old_file_and_nothing_beside(tmp_path: Path, refuse: str) -> None:
    path = tmp_path / "file"
    write_atomically(str(path), b"old, and longer")
    with pytest.raises(StorageError):
        write_atomically(str(path), b"new", env=NoSyncEnv(refuse))
    assert [child.name for child in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old, and longer"
    write_atomically(str(path), b"new")
    assert path.read_bytes() == b"new"


def test_partition_metadata(tmp_path: Path) -> None:
    path = str(tmp_path / "partition.metadata")
    topic_id = uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")
    PartitionMetadata(topic_id).write(path)
    assert Path(path).read_text() == "version: 0\ntopic_id: EjRWeJq83vASNFZ4mrze8A"
    assert PartitionMetadata.read(path) == PartitionMetadata(topic_id)
    assert uuid_from_text(uuid_to_text(topic_id)) == topic_id
    for text, position in (("", 0), ("version: 1\ntopic_id: EjRWeJq83vASNFZ4mrze8A", 0), ("version: 0\n", 11)):
        Path(path).write_text(text)
        with pytest.raises(CorruptError) as caught:
            PartitionMetadata.read(path)
        assert caught.value.position == position
    for bad in ("", "EjRWeJq83vASNFZ4mrze8", "EjRWeJq83vASNFZ4mrze8+", "EjRWeJq83vASNFZ4mrze8é"):
        with pytest.raises(ValueError, match="base64 UUID"):
            uuid_from_text(bad)


def test_meta_properties(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    both = [
        MetaProperties(1, "abc", 7, "EjRWeJq83vASNFZ4mrze8A"),
        MetaProperties(0, None, 3, None),
        MetaProperties(0, "abc"),
    ]
    for properties in both:
        properties.write(str(path))
        assert MetaProperties.read(str(path)) == properties
    path.write_text("#\n#Wed Nov 21 14:45:00 UTC 2024\nnode.id=1\nversion=1\ncluster.id = x\\=y\n! note\n\n")
    assert MetaProperties.read(str(path)) == MetaProperties(1, "x=y", 1, None)
    path.write_text("broker.id: 12\n")
    assert MetaProperties.read(str(path)) == MetaProperties(0, None, 12, None)
    for text, field, position in (
        ("version=2\n", "version", 0),
        ("cluster.id=a\nversion=1\n", "node.id", 23),
        ("version=1\nnode.id=seven\n", "node.id", 10),
        ("version=1\nnode.id=7\n", "cluster.id", 20),
        ("garbage", "cluster.id", 7),
        ("", "cluster.id", 0),
    ):
        path.write_text(text)
        with pytest.raises(CorruptError) as caught:
            MetaProperties.read(str(path))
        assert (caught.value.field, caught.value.position) == (field, position)


def test_the_clean_shutdown_mark(tmp_path: Path) -> None:
    path = tmp_path / ".kafka_cleanshutdown"
    assert CleanShutdown.read(str(path)) is None
    CleanShutdown(42).write(str(path))
    assert path.read_bytes() == b'{"version":0,"brokerEpoch":42}'
    assert CleanShutdown.read(str(path)) == CleanShutdown(42)
    for text in ("", "{}", "[1]", '{"version":0,"brokerEpoch":"x"}'):
        path.write_text(text)
        assert CleanShutdown.read(str(path)) == CleanShutdown(-1)


def test_small_files_of_any_size_take_little_memory(tmp_path: Path) -> None:
    """Each line and each property takes many times its bytes."""
    with pytest.raises(CorruptError, match="at most 500000 lines"):
        split_checkpoint(b"0\n1000100\n" + b"\n" * 1_000_100)
    path = tmp_path / "small"
    path.write_bytes(b"version=1\n" + b"a\n" * 600_000)
    for read in (MetaProperties.read, PartitionMetadata.read):
        with pytest.raises(UnusableFileError, match="at most 1048576"):
            read(str(path))
    assert CleanShutdown.read(str(path)) == CleanShutdown()
