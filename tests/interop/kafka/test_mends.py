"""What `verify` prints to mend a finding is carried out, for every harm; then the broker's own
classes load the directory, as after a clean end and as after a crash, and serve every record of it.
A real broker that starts on all that was mended serves consumers every record."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from logdex.kafka.files.checkpoints import TopicPartition, read_offset_checkpoint, write_offset_checkpoint
from logdex.kafka.files.file_names import (
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
)
from logdex.kafka.files.metadata_files import MetaProperties
from logdex.kafka.snapshot.log_dir_snapshot import open_kafka
from tests.cli.helpers import run_json
from tests.cli.kafka.test_mends import CASES, FLAGS, UNREADABLE, mended, mended_unreadable
from tests.interop.kafka.peer import VERSIONS, Line, format_directory, needs_peers, read_log, run_broker, serving
from tests.interop.kafka.test_recover import our_records, told_record
from tests.mending import Mending
from tests.unit.kafka.verify.log_harm import CONFIG, PARTITION, make_log_dir

pytestmark = [pytest.mark.needs_java, needs_peers, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = make_log_dir(tmp_path_factory.mktemp("sound"))
    (home / PARTITION / "partition.metadata").write_text("version: 0\ntopic_id: RvsNJOzdTx2Ib4WpMjcLuA")
    return home  # a broker refuses the id that is all zeros


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CASES)
def test_the_broker_serves_what_was_mended(name: str, version: str, sound: Path, tmp_path: Path) -> None:
    mending, _ = mended(name, sound, tmp_path)
    check_served(mending, version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("suffix", UNREADABLE)
def test_the_broker_serves_what_the_disk_could_read(suffix: str, version: str, sound: Path, tmp_path: Path) -> None:
    check_served(mended_unreadable(suffix, sound, tmp_path), version)


def check_served(mending: Mending, version: str) -> None:
    """The broker's classes load the directory with and without the mark of a clean end, and read
    all records."""
    for path in list(mending.root.glob("*/lost+found")):
        shutil.rmtree(path)  # the program digests every name of a partition, and knows no folders
    expected = sorted(our_records(mending.root), key=lambda record: record[:2])
    for load in ("marker", "unclean"):
        options = ("--mode", "log", "--load", load, "--config", f"index.interval.bytes={CONFIG.index_interval_bytes}")
        lines = read_log(mending.root, version, *options)
        assert not [line for line in lines.get("log", []) if "failed" in line]
        assert "stop" not in lines
        assert sorted(map(told_record, lines["record"]), key=lambda record: record[:2]) == expected


# -- a broker of its own -------------------------------------------------------------------------
OLDEST = min(VERSIONS)
"""Writes what both versions start on."""
TOPIC = PARTITION.rpartition("-")[0]
CHECKPOINTS = (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, CLEANER_CHECKPOINT)
Row = tuple[int, bytes | None, bytes | None]


class Home(NamedTuple):
    """A broker's directory, and the records of its partitions: all, and those that are
    committed."""

    path: Path
    records: dict[str, list[Row]]
    committed: dict[str, list[Row]]


@pytest.fixture(scope="module")
def all_mended(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A broker's directory with a topic that has a partition for each harm: the mended one."""
    work = tmp_path_factory.mktemp("home")
    home = work / "home"
    names = [*CASES, *UNREADABLE]
    config = {"index.interval.bytes": str(CONFIG.index_interval_bytes)}
    run_broker(home, OLDEST, {"topics": [{"name": TOPIC, "partitions": len(names), "config": config}]})
    sound = make_log_dir(work)
    shutil.copy(home / PARTITION / "partition.metadata", sound / PARTITION)  # the id that the broker knows
    roots = []
    for number, name in enumerate(names):
        (work / str(number)).mkdir()
        harmed = (name, sound, work / str(number))
        roots.append((mended_unreadable(*harmed) if name in UNREADABLE else mended(*harmed)[0]).root)
        assert [path.name for path in roots[-1].iterdir() if path.is_dir()] == [PARTITION]
        assert (roots[-1] / CLEAN_SHUTDOWN).exists()
        shutil.rmtree(home / f"{TOPIC}-{number}")
        shutil.copytree(roots[-1] / PARTITION, home / f"{TOPIC}-{number}")
    for name in CHECKPOINTS:
        merge_checkpoints(name, roots, home)
    partitions = [f"{TOPIC}-{number}" for number in range(len(names))]
    records = {name: rows_of(root, "read_uncommitted") for name, root in zip(partitions, roots, strict=True)}
    committed = {name: rows_of(root, "read_committed") for name, root in zip(partitions, roots, strict=True)}
    return Home(home, records, committed)


def merge_checkpoints(name: str, roots: Sequence[Path], home: Path) -> None:
    """Writes a checkpoint of `home` with what those of the mended directories say of their
    partition."""
    offsets: dict[TopicPartition, int] = {}
    for number, root in enumerate(roots):
        if (root / name).exists():
            of_root = read_offset_checkpoint(str(root / name))
            offsets |= {TopicPartition(TOPIC, number): offset for offset in of_root.values()}
    write_offset_checkpoint(str(home / name), offsets)


def rows_of(root: Path, isolation: str) -> list[Row]:
    with open_kafka(str(root / PARTITION)) as snapshot:
        scan = snapshot.scan(isolation=isolation)
        return [(record.offset, record.key, record.value) for record in scan.records()]


def check_consumed(told: dict[str, list[Line]], home: Home, partition: str) -> None:
    """Consumers got all records of a partition."""
    assert all("error" not in line for line in told["consumed"]), partition
    for isolation, wanted in (("read_uncommitted", home.records), ("read_committed", home.committed)):
        got = [told_record(line)[1:] for line in told["message"] if line["isolation"] == isolation]
        assert got == wanted[partition], (partition, isolation)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("end", ["clean", "crash"])
def test_a_broker_starts_on_all_that_was_mended(end: str, version: str, all_mended: Home, tmp_path: Path) -> None:
    home = Path(shutil.copytree(all_mended.path, tmp_path / "home"))
    if end == "crash":
        (home / CLEAN_SHUTDOWN).unlink()
    with serving(home, version) as broker:
        told = broker.consume_topic(TOPIC, len(all_mended.records))
    for partition in all_mended.records:
        check_consumed(told[partition], all_mended, partition)
    assert Mending(home, home, tmp_path, FLAGS).verify() == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("garbage", ["garbage", "version=1\nnode.id=x\n"])
def test_a_broker_starts_on_formatted_meta_properties(
    garbage: str, version: str, all_mended: Home, tmp_path: Path
) -> None:
    """The file is removed, `kafka-storage format` writes it with the ids that the broker has, and
    the directory's id is that of the cluster's log."""
    home = Path(shutil.copytree(all_mended.path, tmp_path / "home"))
    meta = home / META_PROPERTIES
    before = MetaProperties.read(str(meta))
    assert before.cluster_id is not None
    assert before.node_id is not None
    meta.write_text(garbage)
    mending = Mending(home, all_mended.path, tmp_path, FLAGS)
    assert mending.mend() == []
    [mend] = mending.mends
    assert "kafka-storage format writes it again, with the cluster.id and node.id of the broker" in mend
    assert not meta.exists()
    format_directory(home, version, before.cluster_id, before.node_id)
    written = MetaProperties.read(str(meta))
    assert written[:3] == before[:3]
    assert written.directory_id is not None
    assert "the directory.id into it that logdex cat --decode shows" in mend
    rows = [row["decoded"] for row in run_json("cat", home / "__cluster_metadata-0", "--decode")]
    *_, record = [row for row in rows if row["type"] == "RegisterBroker" and row["broker_id"] == before.node_id]
    [directory_id] = record["log_dirs"]
    meta.write_text(meta.read_text().replace(written.directory_id, directory_id))
    assert MetaProperties.read(str(meta)) == before
    with serving(home, version) as broker:
        told = broker.consume_topic(TOPIC, 2)
    for partition in told:
        check_consumed(told[partition], all_mended, partition)
