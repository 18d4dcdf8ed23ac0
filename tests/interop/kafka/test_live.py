"""Beside a running broker: its directory is only read, and neither side writes where the other one
does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import logdex
from logdex.errors import LogInUseError
from logdex.io.env import Env
from logdex.kafka.batch.record import Record
from logdex.kafka.directory.log_dir import KafkaLogDir
from logdex.kafka.log.log import Log
from logdex.kafka.read.follow import LogFollower
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from tests.interop.kafka.peer import VERSIONS, digests, needs_peers, refused, run_broker, serving, topic_config
from tests.interop.kafka.test_ping_pong import CONFIG, append, broker_steps
from tests.interop.kafka.writing import Written, assert_same

pytestmark = [pytest.mark.needs_java, needs_peers, pytest.mark.timeout(600), pytest.mark.slow]

READING = {"open_read", "read_at", "size_bytes", "map_read", "list_dir", "is_dir", "is_file", "exists"}
READING |= {"modified_ns", "real_path", "lock_is_held", "identity", "stamp"}
CODECS = ("none", "lz4", "zstd", "gzip", "snappy") * 3


class OnlyReading(Env):
    """Fails whatever would change something on disk, or take a lock."""

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        assert kind in READING, f"{kind} {path}"
        with super().operation(kind, path):
            yield


def make_home(tmp_path: Path, version: str) -> Path:
    """A broker's log directory with the topic pp, one partition, shut down."""
    home = tmp_path / "home"
    topic = {"name": "pp", "partitions": 1, "config": topic_config(version, replace(CONFIG, segment_bytes=8000))}
    run_broker(home, version, {"topics": [topic]})
    return home


@pytest.mark.parametrize("version", VERSIONS)
def test_one_writer(version: str, tmp_path: Path) -> None:
    """A running broker keeps us out, an open `Log` keeps a broker out; afterwards each of them
    may."""
    home = make_home(tmp_path, version)
    partition = str(home / "pp-0")
    with serving(home, version):
        assert KafkaLogDir(str(home)).is_locked() is True
        before = digests(home / "pp-0")
        with pytest.raises(LogInUseError, match="another process"):
            Log.open(partition)
        assert digests(home / "pp-0") == before
        with logdex.open(partition) as snapshot:
            assert isinstance(snapshot, PartitionSnapshot)
            assert snapshot.log_end_offset == 0
    assert KafkaLogDir(str(home)).is_locked() is False
    with Log.open(partition, CONFIG) as log:
        written = append(log, 1)
        end = log.log_end_offset
        assert refused(home, version, "Failed to acquire lock on file .lock")
        log.append(Record(value=b"still ours"))
        assert log.log_end_offset == end + 1
    with serving(home, version) as broker:
        lines = broker.consume("pp-0")
    got = [Written.told(line) for line in lines["message"] if line["isolation"] == "read_uncommitted"]
    assert [each.value for each in got[-1:]] == [b"still ours"]
    assert_same(got[:-1], [each.without_fate for each in written if each.fate != "marker"])


class Follower(threading.Thread):
    """Tails a partition until it is stopped; `records` and what went wrong."""

    def __init__(self, path: Path, isolation: str) -> None:
        super().__init__()
        self.follower = LogFollower(str(path), isolation=isolation, env=OnlyReading())
        self.records: list[Record] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.records += self.follower
        except BaseException as error:
            self.error = error

    def finish(self) -> None:
        self.follower.stop()
        self.join(60)
        while more := self.follower.poll():
            self.records += more
        self.follower.close()


class Looker(threading.Thread):
    """Opens the whole log directory again and again; each time all records, whole and in order."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self.home = home
        self.looks: list[list[int]] = []
        self.error: BaseException | None = None
        self.over = threading.Event()

    def run(self) -> None:
        try:
            while not self.over.wait(0.2):
                with logdex.open(self.home, env=OnlyReading()) as snapshot:
                    assert isinstance(snapshot, LogDirSnapshot)
                    found = snapshot.scan(topic="pp").to_arrow().read_all()
                self.looks.append(found.column("offset").to_pylist())
        except BaseException as error:
            self.error = error


@pytest.mark.parametrize("version", VERSIONS)
def test_a_live_broker_is_followed(version: str, tmp_path: Path) -> None:
    """Two followers and repeated snapshots while a workload of all codecs and transactions runs,
    segments rolling: only whole batches, in the end all of what a consumer gets, nothing changed by
    us."""
    home = make_home(tmp_path, version)
    followers = {isolation: Follower(home / "pp-0", isolation) for isolation in ("read_uncommitted", "read_committed")}
    looker = Looker(home)
    spec = broker_steps(5, end="clean", codecs=CODECS)
    with serving(home, version, spec, by_hand=True) as broker:
        for thread in (*followers.values(), looker):
            thread.start()
        broker.wait_until_done()
        lines = broker.consume("pp-0")
        for follower in followers.values():
            follower.finish()
        looker.over.set()
        looker.join(60)
    assert len(list((home / "pp-0").glob("*.log"))) > 3
    for isolation, follower in followers.items():
        assert follower.error is None
        wanted = [Written.told(line) for line in lines["message"] if line["isolation"] == isolation]
        assert wanted
        assert_same([Written.of(each) for each in follower.records], wanted)
    assert looker.error is None
    offsets = [line["offset"] for line in lines["message"] if line["isolation"] == "read_uncommitted"]
    assert len({len(look) for look in looker.looks}) > 3
    for look in looker.looks:
        assert look == offsets[: len(look)]
