"""What verify says of a clean directory, of what is no damage, and of several harms at once."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from logdex.errors import NotAStoreError, UsageError
from logdex.io.env import Env
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import encode_batch
from logdex.kafka.directory.recognise import require_kafka
from logdex.kafka.files.file_names import CLEAN_SHUTDOWN
from logdex.kafka.log.log import Log
from logdex.kafka.rebuild import rebuild
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.snapshot.overview import overview
from logdex.kafka.verify import verify
from tests.directories import tree_hash
from tests.memory import peak_bytes
from tests.unit.kafka.verify.harms import INDEX, LOG, SECOND_BATCH, TIME, put
from tests.unit.kafka.verify.log_harm import CONFIG, PARTITION, THIRD, flip, position_of, run


def test_nothing_is_found_in_a_clean_directory(root: Path) -> None:
    before = tree_hash(root)
    report = run(root)
    assert report.findings == []
    assert report.infos == []
    assert report.messages == 30
    assert tree_hash(root) == before


def test_a_partition_that_has_no_segment_yet(root: Path) -> None:
    (root / "new-0").mkdir()
    assert run(root).findings == []


@pytest.mark.parametrize("appended", [0, 1])
def test_a_new_segment_of_a_killed_broker_has_no_indexes_yet(root: Path, appended: int) -> None:
    """Kafka's LogSegment.open makes a .log; its LazyIndex makes an index when that is first
    used."""
    (root / CLEAN_SHUTDOWN).unlink()
    data = encode_batch([Record(value=b"v", timestamp_ms=1)], base_offset=30, leader_epoch=2) if appended else b""
    (root / PARTITION / f"{30:020d}.log").write_bytes(data)
    report = run(root)
    assert report.findings == []
    assert {info.kind for info in report.infos} >= {"offset-index-missing", "time-index-missing"}


class _NoDisk(Env):
    """Refuses to read one log."""

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        with super().operation(kind, path):
            if kind == "map_read" and path.endswith(LOG):
                raise OSError(errno.EIO, "input/output error")
            yield


def test_a_log_that_cannot_be_read_is_found(root: Path) -> None:
    report = verify(str(root), CONFIG, env=_NoDisk())
    assert [(f.check, f.path) for f in report.findings if f.path.endswith(".log")] == [("unreadable", str(root / LOG))]


def test_information_is_no_finding(root: Path) -> None:
    for name in ("notes.txt", f"{0:020d}.log.deleted", f"{0:020d}.index.cleaned"):
        (root / PARTITION / name).write_bytes(b"x")
    (root / f"{PARTITION}.{'0' * 32}-delete").mkdir()
    (root / ".kafka_cleanshutdown").unlink()
    with (root / INDEX).open("ab") as file:
        file.write(bytes(16))
    report = run(root)
    assert report.findings == []
    assert sorted(info.kind for info in report.infos) == [
        "foreign-file",
        "index-not-trimmed",
        "leftover",
        "leftover",
        "partition-delete",
        "unclean-end",
    ]


def test_damage_before_hides_nothing_behind_and_blames_no_index(root: Path) -> None:
    flip(root / LOG, SECOND_BATCH + 80)
    flip(root / f"{THIRD}.log", position_of(20, 2) + 80)
    flip(root / f"{THIRD}.index", 3)
    told = [(f.check, f.path.removeprefix(f"{root}/"), f.position) for f in run(root).findings]
    assert told == [
        ("batch-crc", LOG, SECOND_BATCH),
        ("offset-index-offset", f"{THIRD}.index", 0),
        ("batch-crc", f"{THIRD}.log", position_of(20, 2)),
    ]


def test_one_segment_is_checked_with_its_indexes(root: Path) -> None:
    flip(root / INDEX, 11)
    report = verify(str(root / LOG), CONFIG)
    assert [(f.check, f.path) for f in report.findings] == [("offset-index-offset", str(root / INDEX))]
    assert report.messages == 10


def test_preallocated_logs_of_the_broker_are_information(root: Path) -> None:
    size = position_of(20, 6) + 500
    with (root / f"{THIRD}.log").open("r+b") as file:
        file.truncate(size)
    config = replace(CONFIG, segment_bytes=size)
    report = verify(str(root), config)
    assert report.findings == []
    assert [info.kind for info in report.infos] == ["log-preallocated"]


def test_what_cannot_be_checked_is_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such check: crc"):
        run(root, "crc")
    with pytest.raises(NotAStoreError):
        verify(str(tmp_path / "nothing"))
    (root / LOG).unlink()
    with pytest.raises(UsageError, match="to hold it against"):
        verify(str(root / INDEX))


def test_entries_that_no_broker_writes_are_found_whatever_the_version(root: Path) -> None:
    """What brokers write that make an entry per append is in `test_older_broker`."""
    put(INDEX, 16, struct.pack(">i", 8))(root)  # the fifth batch's offset, of whose time there is no entry
    put(TIME, 8, struct.pack(">i", 2))(root)  # the second batch's first record, whose time is not the largest
    for version in ("4.4.0", "v3.9.2-rc1", "3.7.0", "0.11.0.3", "4.0.0"):
        found = verify(str(root), replace(CONFIG, kafka_version=version)).findings
        assert [(each.check, each.position) for each in found] == [
            ("offset-index-offset", 16),
            ("time-index-offset", 0),
        ]


def test_partitions_of_programs_beside_each_other(tmp_path: Path) -> None:
    for name in ("a-0", "b-0"):
        with Log.open(str(tmp_path / name)) as log:
            log.append(Record(value=b"x"))
    assert [info.kind for info in verify(str(tmp_path)).infos] == ["no-meta-properties"]
    found = require_kafka(str(tmp_path))
    assert overview(found, LogConfig()).clean is True
    (tmp_path / "a-0" / ".logdex-clean").unlink()
    assert overview(found, LogConfig()).clean is None


@pytest.mark.parametrize("trimmed", [True, False])
def test_a_record_of_time_0_alone_in_a_segment(tmp_path: Path, trimmed: bool) -> None:
    """Its entry is zeros, as those are that follow the entries of an index that was not trimmed."""
    with Log.open(str(tmp_path / "a-0")) as log:
        log.append([Record(value=b"v", timestamp_ms=0)])
        log.roll()
        log.append([Record(value=b"v", timestamp_ms=0)])
    index = tmp_path / "a-0" / f"{0:020d}.timeindex"
    assert index.read_bytes() == bytes(12)
    if not trimmed:
        index.write_bytes(bytes(120))
    report = run(tmp_path)
    assert (report.findings, report.messages) == ([], 2)
    look = overview(require_kafka(str(tmp_path)), LogConfig())
    states = {each.time_index.state for each in look.partitions[0].segments}
    assert states == ({"good"} if trimmed else {"good", "untrimmed"})
    with Log.open(str(tmp_path / "a-0")) as log:
        log.append([Record(value=b"v", timestamp_ms=0)])
    assert run(tmp_path).findings == []
    (tmp_path / "a-0" / f"{1:020d}.timeindex").write_bytes(b"")
    assert [each.check for each in run(tmp_path).findings] == ["time-index-end"]


def test_batches_of_an_earlier_epoch_are_no_finding_that_a_rebuild_leaves(root: Path, tmp_path: Path) -> None:
    """A segment of another log: a broker reads it, and its recovery makes an epoch only of batches
    of a later one (Kafka's LogSegment.recover)."""
    path = root / f"{THIRD}.log"
    raw = bytearray(path.read_bytes())
    for number in range(6):
        raw[position_of(20, number) + 15] = 0
    path.write_bytes(raw)
    (root / PARTITION / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 10\n")
    report = run(root)
    assert report.findings == []
    (told,) = [info for info in report.infos if info.kind == "leader-epochs-back"]
    assert "from offset 20 to 29 are of leader epoch 0" in told.message
    rebuild(root, tmp_path / "out", index_interval_bytes=CONFIG.index_interval_bytes)
    assert (tmp_path / "out" / PARTITION / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n1 10\n"


def peak_of_verify(root: Path, batches: int) -> int:
    def check() -> None:
        assert verify(root).messages == batches * 16

    with Log.open(root / "t-0", segment_bytes=4 << 20) as log:
        for _ in range(batches):
            log.append([Record(value=b"v" * 4000)] * 16)
    check()  # what is loaded at the first look stays
    return peak_bytes(check)


@pytest.mark.slow
def test_memory_does_not_follow_the_size_of_the_log(tmp_path: Path) -> None:
    """16 MiB, and 64 MiB."""
    once, four_times = peak_of_verify(tmp_path / "once", 256), peak_of_verify(tmp_path / "four", 1024)
    assert four_times < once * 1.5
