"""`cat --tail`, `--grep` and `--where` of Kafka's logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logdex.io.env import DEFAULT_ENV, Env
from logdex.jobs import look_again
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.read.tail import read_tail
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from tests.cli.helpers import run

START_MS = 1_700_000_000_000
COUNT = 400


def appended(log: Log, number: int) -> None:
    log.append(Record(b"k%d" % (number % 7), b"value %d" % number, START_MS + number, (("n", b"%d" % number),)))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory with two partitions of 400 records in small segments; only read it."""
    root = tmp_path_factory.mktemp("filters") / "logs"
    for partition in range(2):
        with Log.open(str(root / f"t-{partition}"), segment_bytes=8192, index_interval_bytes=256) as log:
            for number in range(COUNT):
                appended(log, number)
    return root


def offsets(root: Path, *flags: object) -> list[tuple[int, int]]:
    result = run("cat", root, *flags, "--columns", "partition,offset")
    assert result.exit_code == 0, result.stderr
    return [(int(line.split()[0]), int(line.split()[1])) for line in result.stdout.splitlines()]


def both(numbers: Any) -> list[tuple[int, int]]:
    numbers = list(numbers)
    return [(partition, number) for partition in range(2) for number in numbers]


@pytest.mark.parametrize("count", [0, 1, 5, COUNT, COUNT + 1])
def test_the_last_of_each_partition(root: Path, count: int) -> None:
    assert offsets(root, "--tail", count) == both(range(max(COUNT - count, 0), COUNT))


def test_the_last_that_pass_the_filters(root: Path) -> None:
    assert offsets(root, "--tail", 2, "--grep", "value 1") == both([198, 199])
    assert offsets(root, "--tail", 2, "--where", "key = k0") == both([392, 399])
    assert offsets(root, "--tail", 2, "--to", START_MS + 50) == both([49, 50])
    assert offsets(root, "--tail", 9, "--offset", 395, "--partition", 1) == [(1, number) for number in range(395, 400)]
    assert offsets(root, "--tail", 3, "--limit", 4) == [*both([397, 398, 399])[:4]]
    assert offsets(root, "--tail", 2, "--where", "partition = 1") == [(1, 398), (1, 399)]


def test_grep_and_where(root: Path) -> None:
    assert offsets(root, "--grep", "/^value .x$/") == []
    assert offsets(root, "--grep", "/^value .3$/") == both(range(13, 100, 10))
    assert offsets(root, "--grep", "n=399") == both([399])
    assert offsets(root, "--where", "offset >= 395", "--where", "offset != 397") == both([395, 396, 398, 399])
    assert offsets(root, "--where", f"timestamp_ms < {START_MS + 2}", "--limit", 3) == [*both([0, 1])[:3]]
    assert offsets(root, "--where", "topic = other") == []
    assert offsets(root, "--where", "offset > 99999999999999999999999") == []


def test_a_tail_reads_backwards_from_the_end(root: Path) -> None:
    env = Env()
    with PartitionSnapshot(str(root / "t-0"), env=env, segment_bytes=8192) as one:
        end = one.log_end_offset
        size = one.size_bytes
        before = env.counters.read_bytes + env.counters.mapped_bytes
        records, told = read_tail(one, end, one.scan().wanted, 3)
        assert [record.offset for record in records] == [397, 398, 399]
        assert told.is_good
        assert env.counters.read_bytes + env.counters.mapped_bytes - before < size // 3
        assert told.rows == 3


def test_a_tail_of_a_damaged_log_says_so(root: Path, tmp_path: Path) -> None:
    with Log.open(str(tmp_path / "t-0")) as log:
        for number in range(20):
            appended(log, number)
    file = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    at = data.index(b"value 18")
    data[at] ^= 1
    file.write_bytes(data)
    result = run("cat", tmp_path / "t-0", "--tail", 3, "--format", "%o ")
    assert (result.exit_code, result.stdout) == (1, "16 17 19 ")
    assert result.stderr.count("skipped:") == 1


def test_a_tail_that_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Log.open(str(tmp_path / "t-0")) as log:
        for number in range(5):
            appended(log, number)
        coming = iter(range(5, 8))  # one is appended each time that the command waits
        monkeypatch.setattr(look_again, "pause", lambda: appended(log, next(coming)))
        flags = ("--tail", 2, "--follow", "--limit", 4, "--where", "offset != 6")
        assert offsets(tmp_path, *flags) == [(0, 3), (0, 4), (0, 5), (0, 7)]


def test_a_log_that_is_cut_and_grows_again_while_it_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Log.open(str(tmp_path / "t-0")) as log:
        for number in range(5):
            appended(log, number)

        def cut() -> None:
            log.truncate_to(3)
            for number in range(13, 17):
                appended(log, number)

        monkeypatch.setattr(look_again, "pause", cut)
        result = run("cat", tmp_path / "t-0", "--follow", "--limit", 9, "--format", "%o=%s ")
    assert result.stdout.split("value ") == [
        "0=",
        "0 1=",
        "1 2=",
        "2 3=",
        "3 4=",
        "4 3=",
        "13 4=",
        "14 5=",
        "15 6=",
        "16 ",
    ]
    assert (result.exit_code, result.stderr) == (
        0,
        f"logdex: {tmp_path}/t-0: the log was cut from offset 5 back to 3\n",
    )


@pytest.mark.parametrize("flags", [("--limit", 3), ("--grep", "value 1", "--limit", 1), ("--where", "offset < 3")])
def test_a_limit_or_a_filter_ends_the_reading(root: Path, flags: tuple[Any, ...]) -> None:
    """The log has several segments; what is wanted is in the first of them."""
    assert len(list((root / "t-0").glob("*.log"))) > 3
    full, few = (bytes_read(root / "t-0", *more) for more in ((), flags))
    assert few < full - 8192, "at least one segment is left unread"


def bytes_read(path: Path, *flags: object) -> int:
    """Returns how many bytes of a log `cat` reads or maps."""
    counters = DEFAULT_ENV.counters
    before = counters.read_bytes + counters.mapped_bytes
    assert run("cat", path, *flags).exit_code == 0
    return counters.read_bytes + counters.mapped_bytes - before
