from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import logdex
from logdex.errors import CorruptError, NotAStoreError
from logdex.io.env import Env
from logdex.io.path_look import PathLook
from logdex.kafka.directory.log_dir import KafkaLogDir
from logdex.kafka.directory.log_lock import DirectoryLock
from logdex.kafka.directory.recognise import KafkaPathKind, recognise, require_kafka
from logdex.kafka.files.checkpoints import TopicPartition, write_offset_checkpoint
from logdex.kafka.files.file_names import PartitionName, parse_partition_dir
from tests.unit.io.locks import held_elsewhere

MARK = ".0123456789abcdef0123456789abcdef"
SEGMENT = f"{0:020d}.log"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("b.c-10", "b.c-9", "a-0", f"a-1{MARK}-delete", f"a-2{MARK}-future", f"a-3{MARK}-stray"):
        (tmp_path / "logs" / name).mkdir(parents=True)
        (tmp_path / "logs" / name / SEGMENT).touch()
    (tmp_path / "logs" / "not a partition").mkdir()
    (tmp_path / "logs" / "stray-7").touch()
    return tmp_path / "logs"


def test_partitions_and_marks(root: Path) -> None:
    found = KafkaLogDir(f"{root}/")
    assert [each.name for each in found.partition_dirs()] == ["a-0", "b.c-9", "b.c-10"]
    assert [(str(each.topic_partition), each.mark) for each in found.partition_dirs(marked=True)] == [
        ("a-0", None),
        ("a-1", "delete"),
        ("a-2", "future"),
        ("a-3", "stray"),
        ("b.c-9", None),
        ("b.c-10", None),
    ]
    assert found.topics() == {"a": [0], "b.c": [9, 10]}
    nine = found.partition_dir("b.c", 9)
    assert nine is not None
    assert (nine.path, found.topic_id(nine)) == (f"{root}/b.c-9", None)
    assert found.partition_dir("a", 1) is None
    assert found.other_names() == ["not a partition", "stray-7"]


def test_files_of_the_directory(root: Path) -> None:
    found = KafkaLogDir(str(root))
    assert (found.meta_properties(), found.clean_shutdown(), found.cluster_metadata()) == (None, None, None)
    assert found.consumer_offsets().offsets == {}
    names = ("recovery-point", "log-start", "replication", "cleaner")
    for number, name in enumerate(names):
        write_offset_checkpoint(str(root / f"{name}-offset-checkpoint"), {TopicPartition("a", 0): number})
    answers = (found.recovery_points(), found.log_start_offsets(), found.high_watermarks(), found.cleaner_offsets())
    assert answers == tuple({TopicPartition("a", 0): number} for number in range(4))
    assert found.other_names() == ["not a partition", "stray-7"]
    (root / "cleaner-offset-checkpoint").write_text("0\n1\na zero 0\n")
    with pytest.raises(CorruptError):
        found.cleaner_offsets()


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("a-0.AbC_-9-stray", ("a", 0, "stray")),  # the broker takes any id
        ("a.b-c-12.x-delete", ("a.b-c", 12, "delete")),
        ("a-0.-stray", None),
        ("a.x-stray", None),
        ("a-0.x-stray-3", ("a-0.x-stray", 3, None)),
    ],
)
def test_marked_names(name: str, wanted: tuple[str, int, str | None] | None) -> None:
    assert parse_partition_dir(name) == (None if wanted is None else PartitionName(*wanted))


def test_a_held_lock_is_seen_and_not_taken(root: Path) -> None:
    found = KafkaLogDir(str(root))
    assert found.is_locked() is False
    assert not (root / ".lock").exists()
    with held_elsewhere(root / ".lock"):
        assert found.is_locked() is True
    assert found.is_locked() is False
    lock = DirectoryLock(str(root), env=Env())
    assert found.is_locked() is True
    ask = "import sys; from logdex.kafka import KafkaLogDir; print(KafkaLogDir(sys.argv[1]).is_locked())"
    answer = subprocess.run([sys.executable, "-c", ask, str(root)], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "True"  # asking here has not given the lock up
    lock.release()
    assert found.is_locked() is False


def test_recognising(root: Path) -> None:
    for name in ("x.index", "x.timeindex"):
        (root / "a-0" / name).touch()
    for suffix in ("index", "timeindex", "txnindex", "snapshot", "keyindex"):
        (root / "a-0" / f"{7:020d}.{suffix}").touch()
        found = require_kafka(f"{root}/a-0/{7:020d}.{suffix}")
        assert (found.kind, found.offset) == (KafkaPathKind(f".{suffix}"), 7)
        assert found.partition is not None
        assert found.partition.topic == "a"
    assert require_kafka(str(root)).kind is KafkaPathKind.LOG_DIR
    assert require_kafka(f"{root}/a-0/").kind is KafkaPathKind.PARTITION
    assert require_kafka(f"{root}/a-0/{SEGMENT}").kind is KafkaPathKind.LOG
    stray = require_kafka(f"{root}/a-3{MARK}-stray")
    assert stray.partition is not None
    assert stray.partition.mark == "stray"
    (root / "a-0").rename(root / "renamed")
    copy = require_kafka(f"{root}/renamed")
    assert (copy.kind, copy.partition) == (KafkaPathKind.PARTITION, None)
    with pytest.raises(NotAStoreError, match="a partition of Kafka's, not a log directory"):
        KafkaLogDir(f"{root}/renamed")


def test_a_partition_whose_files_a_broker_is_about_to_make(root: Path) -> None:
    (root / "new-0").mkdir()
    (root / "folder").mkdir()
    (root / "meta.properties").touch()
    assert require_kafka(str(root / "new-0")).kind is KafkaPathKind.PARTITION
    assert recognise(PathLook(root / "folder")) is None
    with logdex.open(root / "new-0") as snapshot:
        assert list(snapshot.scan()) == []


def test_an_empty_partition_and_an_empty_log_directory(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    assert recognise(PathLook(tmp_path / "t-0")) is None
    (tmp_path / "t-0" / "leader-epoch-checkpoint").touch()
    assert require_kafka(str(tmp_path / "t-0")).kind is KafkaPathKind.PARTITION
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "meta.properties").touch()
    assert KafkaLogDir(str(tmp_path / "logs")).partition_dirs() == []


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gone", "no such file"),
        ("empty", "the directory is empty"),
        ("full", "no partitions and no segments"),
        ("full/notes.log", "not a file of a Kafka log"),
        ("full/partition.metadata", "not a file of a Kafka log"),
    ],
)
def test_what_is_no_kafka(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    for file in ("notes.log", "partition.metadata", "00000000000000000000"):
        (tmp_path / "full" / file).touch()
    (tmp_path / "full" / "x-0").mkdir()
    path = str(tmp_path / name)
    assert recognise(PathLook(path)) is None
    with pytest.raises(NotAStoreError, match=why):
        require_kafka(path)
