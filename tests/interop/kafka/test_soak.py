"""Readers beside a real broker for a long time: rolls, retention, compaction, transactions, topics
that are deleted, kills and an upgrade. There is no false finding, no crash and no wrong row, and a
scan has all that the broker had acknowledged before the scan began."""

from __future__ import annotations

import base64
import itertools
import json
import re
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import logdex as api
from logdex.cli.rows.printer import END_OF
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from tests.interop import soak
from tests.interop.kafka import peer
from tests.java import QUICK

pytestmark = [
    pytest.mark.needs_java,
    peer.needs_peers,
    pytest.mark.timeout(7200),
    pytest.mark.slow,
    # Behind a kill the log is torn until the next start.
    pytest.mark.filterwarnings("ignore::logdex.errors.IncompleteReadWarning"),
]

OLD = (("3.9.2", "kill"), ("3.9.2", "clean"))
NEW = (("4.4.0", "kill"), ("4.4.0", "kill"), ("4.4.0", "clean"))
HISTORIES = {"3.9.2": OLD, "4.4.0": NEW, "upgrade": OLD + NEW}
"""The broker's version, and how its run ends. Each history takes all of the seconds."""
BROKER = {
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.cleaner.backoff.ms": "300",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "2",
}
WHOLE = (("plain", 0), ("plain", 1), ("money", 0), ("money", 1))
"""Partitions that nothing is removed from."""


class Known(NamedTuple):
    """A record that was acknowledged. A tombstone has no number."""

    offset: int
    key: str
    number: int | None


class Load:
    """The program that writes, and what the broker has acknowledged so far: by what was said, topic
    and partition, the highest offset. `records` are those without a transaction, by topic and
    partition."""

    def __init__(self) -> None:
        self.acknowledged: dict[tuple[str, str, int], int] = {}
        self.records: defaultdict[tuple[str, int], list[Known]] = defaultdict(list)

    @contextmanager
    def running(self, broker: peer.RunningBroker, version: str, seed: int) -> Iterator[None]:
        lib = peer._cache(version) / "lib" / "*"
        source = Path(__file__).parent / "SoakLoad.java"
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
        command = ["java", "-Xmx512m", *QUICK, quiet, "-cp", str(lib), str(source)]
        command += [broker.address, str(seed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            listener = threading.Thread(target=self._listen, args=(process,))
            listener.start()
            yield
            process.kill()
            listener.join()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.endswith(b"\n"):
                continue
            what, topic, partition, offset, *record = line.decode().split()
            if record:
                key, number = record
                known = Known(int(offset), key, None if number == "-" else int(number))
                self.records[topic, int(partition)].append(known)
            elif what == "deleting":
                self.records.pop((topic, int(partition)), None)
            else:
                said = (what, topic, int(partition))
                self.acknowledged[said] = max(int(offset), self.acknowledged.get(said, -1))

    def wait_for_more(self) -> None:
        """Until the broker acknowledges something."""
        known = dict(self.acknowledged)
        for _ in range(1200):
            if self.acknowledged != known:
                return
            time.sleep(0.1)
        raise AssertionError("the broker acknowledges nothing")

    def needed(self, what: str, topic: str, partition: int) -> int:
        return self.acknowledged.get((what, topic, partition), -1)

    def last(self, topic: str, partition: int) -> int:
        """The last offset that was acknowledged in any way."""
        return max(self.needed("acked", topic, partition), self.needed("committed", topic, partition))


def check_rows(home: Path, needed: int, topic: str, partition: int) -> None:
    """A scan of a partition that nothing is removed from: all offsets, all values right, all up to
    the offset `needed`."""
    path = home / f"{topic}-{partition}"
    if not path.is_dir():
        assert needed < 0
        return
    isolation = "read_committed" if topic == "money" else "read_uncommitted"
    with api.open(path) as snapshot:
        assert isinstance(snapshot, PartitionSnapshot)
        columns = snapshot.scan(isolation=isolation).to_arrow().read_all()
    offsets = columns.column("offset").to_pylist()
    assert all(one < two for one, two in itertools.pairwise(offsets)), "offsets do not ascend"
    if topic == "plain":
        assert offsets == list(range(len(offsets))), "an offset is missing"
    assert not offsets or offsets[-1] >= needed, f"{path.name} ends at {offsets[-1]}, acknowledged is {needed}"
    assert offsets or needed < 0, f"{path.name} is empty, acknowledged is {needed}"
    for value in columns.column("value").to_pylist():
        check_value(value, topic)


def check_record(line: dict[str, Any], topic: str) -> Known:
    """A record that a command printed as JSON is of the topic, and its key and value are what
    SoakLoad writes; only the compacted topic has tombstones."""
    assert line["topic"] == topic, f"not of {topic}: {line}"
    key = base64.b64decode(line["key"]).decode()
    assert re.fullmatch(r"key-\d+", key), f"no key of the load: {line}"
    if line["value"] is None:
        assert topic == "compacted", f"a tombstone in {topic}: {line}"
        return Known(line["offset"], key, None)
    return Known(line["offset"], key, check_value(base64.b64decode(line["value"]), topic))


def check_lines(printed: str, topic: str) -> dict[int, list[Known]]:
    """The records that a command printed as JSON before the line about the end, by partition. No
    offset comes twice."""
    *lines, end = map(json.loads, printed.splitlines())
    assert END_OF in end, f"the last line is {end}"
    found: dict[int, list[Known]] = defaultdict(list)
    for line in lines:
        found[line["partition"]].append(check_record(line, topic))
    for records in found.values():
        assert len({record.offset for record in records}) == len(records), f"{topic}: an offset twice"
    return found


def check_none_lost(found: Sequence[Known], known: Sequence[Known], where: str) -> None:
    """All records that were acknowledged are among those that were found."""
    lost = sorted({*known} - {*found})
    assert not lost, f"{where}: {len(lost)} records are missing, such as {lost[:3]}"


def check_cat(home: Path, load: Load, topic: str) -> None:
    """The records of a partition that records are removed from are right and in order. All are
    there that were acknowledged before and are not removed by now."""
    path, known = home / f"{topic}-0", [*load.records[topic, 0]]
    found = check_lines(soak.logdex("cat", path, "--json"), topic)[0]
    assert all(one.offset < two.offset for one, two in itertools.pairwise(found)), f"{topic}: offsets do not ascend"
    if topic == "compacted":
        check_newest(found, known)
        return
    start = min((int(log.stem) for log in path.glob("*.log")), default=None)
    if start is not None:
        check_none_lost(found, [record for record in known if record.offset >= start], topic)


def check_newest(found: Sequence[Known], known: Sequence[Known]) -> None:
    """The last record of each key that was acknowledged, or a newer one, is there; a tombstone may
    be gone."""
    at = {record.offset: record for record in known}
    assert all(at.get(record.offset, record) == record for record in found), "another record is at an offset"
    newest = {record.key: record.offset for record in found}
    last = {record.key: record for record in known}
    lost = [record for key, record in last.items() if newest.get(key, -1) < record.offset]
    lost = [record for record in lost if record.number is not None]
    assert not lost, f"compacted: the last records of {len(lost)} keys are missing, such as {lost[:3]}"


def check_gone(home: Path, load: Load) -> None:
    """The records of topics that are deleted soon are right, and all there unless the topic is
    deleted by now."""
    for path in home.glob("gone-*-0"):
        topic = path.name.removesuffix("-0")
        known = [*load.records[topic, 0]]
        printed = soak.logdex("cat", path, "--json", allowed=(0, 1, 2))
        if path.is_dir():
            check_none_lost(check_lines(printed, topic)[0], known, topic)
            continue
        for line in map(json.loads, printed.splitlines()):
            if END_OF not in line:
                check_record(line, topic)


def check_query(home: Path, load: Load, key: str) -> None:
    """A query returns the records with the key, none of them twice, and all that were acknowledged
    before."""
    known = {number: [record for record in load.records["plain", number] if record.key == key] for number in (0, 1)}
    found = check_lines(soak.logdex("query", home, "--topic", "plain", "--key", key, "--json"), "plain")
    for number, records in known.items():
        assert all(record.key == key for record in found[number]), f"a query for {key} returns {found}"
        check_none_lost(found[number], records, f"{key} in plain-{number}")


def check_get(home: Path, load: Load) -> None:
    """A read from the first offset on returns the first records, all of the partition."""
    known = [*load.records["plain", 0]]
    printed = soak.logdex("get", home, "--topic", "plain", "--partition", 0, "--offset", 0, "--json")
    found = check_lines(printed, "plain")
    assert list(found) == [0], f"get returns records of {list(found)}"
    assert [record.offset for record in found[0]] == [*range(len(found[0]))], f"get returns {found}"
    check_none_lost(found[0], [record for record in known if record.offset < len(found[0])], "plain")


def check_value(value: bytes, topic: str) -> int:
    """A value is what SoakLoad writes. Returns its number."""
    name, number, filler = value.decode().split(" ")
    assert name == topic
    assert filler == chr(ord("a") + int(number) % 26) * len(filler)
    return int(number)


def check_recovered(home: Path, load: Load, output: Path) -> None:
    """A recovered copy has all that was acknowledged."""
    needed = [load.last(*one) for one in WHOLE]
    with soak.recovered(home, output):
        for last, one in zip(needed, WHOLE, strict=True):
            check_rows(output, last, *one)


def looks(home: Path, load: Load, scratch: Path) -> dict[str, Callable[[], None]]:
    """What runs beside the broker."""
    turn = iter(range(10**9))

    def scan() -> None:
        one = WHOLE[next(turn) % len(WHOLE)]
        check_rows(home, load.last(*one), *one)

    def cat() -> None:
        for topic in ("kept", "compacted"):
            if (home / f"{topic}-0").is_dir():
                check_cat(home, load, topic)
        check_gone(home, load)

    def commands() -> None:
        soak.logdex("info", home, "--json")
        if load.needed("acked", "plain", 0) < 0:
            return
        check_query(home, load, f"key-{next(turn) % 1000}")
        check_get(home, load)

    def verify() -> None:
        soak.logdex("verify", home, "--json")

    def rebuild() -> None:
        soak.rebuild_elsewhere(home, scratch / "rebuilt")

    recover = partial(check_recovered, home, load, scratch / "recovered")
    return {"scan": scan, "cat": cat, "commands": commands, "verify": verify, "rebuild": rebuild, "recover": recover}


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_soak(history: Sequence[tuple[str, str]], tmp_path: Path) -> None:
    home = tmp_path / "home"
    load = Load()
    peer.run_broker(home, history[0][0], {"broker": BROKER})
    each_s = soak.SECONDS / len(history)
    with soak.Beside(looks(home, load, tmp_path)) as beside:
        for number, (version, end) in enumerate(history):
            spec = {"broker": BROKER, "end": "halt" if end == "kill" else "clean"}
            with peer.serving(home, version, spec) as broker, load.running(broker, version, number + 1):
                load.wait_for_more()
                time.sleep(each_s)
                if end == "kill":  # under load
                    broker.end()
    print(beside.rounds, load.acknowledged)
    assert not beside.problems, "\n".join([f"{len(beside.problems)} problems", *beside.problems[:20]])
    assert min(beside.rounds.values()) > 0
    assert load.needed("acked", "plain", 0) > 1000
    assert load.needed("committed", "money", 0) > 100
    for topic, partition in WHOLE:
        check_rows(home, load.last(topic, partition), topic, partition)
