"""The same mistake has the same answer in both formats, on the command line and in Python: one
clear line, what to type next, exit code 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.errors import MissingFileError, UsageError
from logdex.rocketmq import Consumer, StoreSnapshot
from tests.cli.helpers import run
from tests.cli.small_places import make_places

HUGE = 10**20
TOLD = r"no topic 'ordres' \(did you mean 'orders'\?"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in `store` and a Kafka log directory in `logs`, with the topics orders and
    payments."""
    return make_places(tmp_path_factory.mktemp("questions"))


TOPICS = ("cat", "get", "query", "stats", "export", "convert", "filter", "offsets", "consume")
MORE = {
    "get": ("--offset", "0"),
    "query": ("--key", "k"),
    "export": ("--output", "out"),
    "convert": ("--output", "out"),
    "filter": ("--output", "out"),
    "consume": ("--group", "G"),
}


def asked(command: str, what: str) -> tuple[str, ...]:
    more = MORE.get(command, ())
    part = {"get": ("--queue" if what == "store" else "--partition", "0")}.get(command, ())
    to = ("--to", "kafka" if what == "store" else "rocketmq") if command == "convert" else ()
    return (*part, *more, *to)


@pytest.mark.parametrize("what", ["store", "logs"])
@pytest.mark.parametrize("command", TOPICS)
def test_an_unknown_topic(
    command: str, what: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = run(command, place / what, "--topic", "ordres", *asked(command, what))
    path = place / what
    assert ended.stderr.endswith(
        f"logdex: {path}: no topic 'ordres'\n        did you mean 'orders'? logdex info {path} lists the topics\n"
    )
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert [each.name for each in tmp_path.iterdir()] == []
    ended = run(command, place / what, "--topic", "quite another", *asked(command, what))
    assert "no topic 'quite another'\n" in ended.stderr
    assert "did you mean" not in ended.stderr
    assert ended.exit_code == 2


@pytest.mark.parametrize(("what", "part"), [("store", "queue"), ("logs", "partition")])
@pytest.mark.parametrize("command", ["cat", "get", "stats", "export", "convert", "filter"])
def test_an_unknown_queue_or_partition(
    command: str, what: str, part: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    to = ("--to", "kafka" if what == "store" else "rocketmq") if command == "convert" else ()
    more = (*MORE.get(command, ()), *to)
    ended = run(command, place / what, "--topic", "orders", f"--{part}", 7, *more)
    assert ended.stderr == f"logdex: {place / what}: the topic 'orders' has no {part} 7\n        there are 0, 1\n"
    assert (ended.exit_code, ended.stdout) == (2, "")
    there = "0 to 2" if what == "store" else "0, 1"
    if command != "get":
        ended = run(command, place / what, f"--{part}", 7, *more)
        assert ended.stderr == f"logdex: {place / what}: no topic has a {part} 7\n        there are {there}\n"


def test_an_unknown_topic_of_a_message_and_partition_of_a_query(place: Path) -> None:
    ended = run("message", place / "store", "7F", "--topic", "ordres")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "no topic 'ordres'\n        did you mean 'orders'?" in ended.stderr
    ended = run("query", place / "logs", "--topic", "orders", "--key", "k", "--partition", 7)
    assert ended.stderr == f"logdex: {place / 'logs'}: the topic 'orders' has no partition 7\n        there are 0, 1\n"
    assert (ended.exit_code, ended.stdout) == (2, "")


def test_a_topic_that_has_no_message_yet_is_known(place: Path) -> None:
    """It is in topics.json."""
    assert run("cat", place / "store", "--topic", "planned").exit_code == 0
    assert run("get", place / "store", "--topic", "planned", "--queue", 2, "--offset", 0).exit_code == 0
    assert run("get", place / "store", "--topic", "planned", "--queue", 3, "--offset", 0).exit_code == 2


def test_a_topic_without_consume_queues_is_known(place: Path, tmp_path: Path) -> None:
    """The log has its messages."""
    (tmp_path / "commitlog").symlink_to(place / "store" / "commitlog")
    for path in (tmp_path, next((place / "store" / "commitlog").iterdir())):
        ended = run("cat", path, "--topic", "payments", "--limit", 1)
        assert (ended.exit_code, ended.stdout.count("payments/")) == (0, 1)
        ended = run("cat", path, "--topic", "payment", "--limit", 1)
        assert ended.exit_code == 2
        assert "did you mean 'payments'?" in ended.stderr
        assert run("get", path, "--topic", "payments", "--queue", 0, "--offset", 0).exit_code == 0


def test_the_same_in_python(place: Path) -> None:
    with logdex.open(place / "store") as store:
        assert isinstance(store, StoreSnapshot)
        assert store.topics() == {"orders": [0, 1], "payments": [0, 1]}
        calls: list[Callable[[str], object]] = [
            lambda topic: store.scan(topic),
            lambda topic: store.query_message(topic, "k"),
            lambda topic: store.search_messages(topic, "k"),
            lambda topic: Consumer(store, "G", topic),
            lambda topic: Consumer(place / "store", "G", topic),
        ]
        for call in calls:
            with pytest.raises(MissingFileError, match=TOLD):
                call("ordres")
        with pytest.raises(MissingFileError, match="the topic 'orders' has no queue 9"):
            store.scan("orders", 9)
        with pytest.raises(UsageError, match="is later than"):
            store.scan("orders", begin_ms=2, end_ms=1)
        with pytest.raises(UsageError, match="is later than"):
            store.query_message("orders", "k", 2, 1)
        with pytest.raises(UsageError, match=f"queue_offset is {HUGE}"):
            store.scan(queue_offset=HUGE)
    with logdex.open(place / "logs") as opened:
        logs: Any = opened
        calls = [
            lambda topic: logs.scan(topic=topic),
            lambda topic: logs.query(topic, "k"),
            lambda topic: logs.partition(topic, 0),
        ]
        for call in calls:
            with pytest.raises(MissingFileError, match=TOLD):
                call("ordres")
        with pytest.raises(MissingFileError, match="the topic 'orders' has no partition 9"):
            logs.scan(topic="orders", partition=9)
        with pytest.raises(UsageError, match="is later than"):
            logs.scan(begin_ms=2, end_ms=1)
        with pytest.raises(UsageError, match=f"offset is {HUGE}"):
            logs.scan(offset=HUGE)


@pytest.mark.parametrize("what", ["store", "logs"])
@pytest.mark.parametrize("command", ["cat", "query", "stats"])
def test_times_in_the_wrong_order(command: str, what: str, place: Path) -> None:
    more = ("--topic", "orders", "--key", "k") if command == "query" else ()
    ended = run(command, place / what, *more, "--from", "2026-03-03T09:00", "--to", "2026-03-03T08:00")
    assert ended.stderr == (
        "logdex: --from 2026-03-03T09:00:00.000Z is later than --to 2026-03-03T08:00:00.000Z\n"
        "        exchange the two\n"
    )
    assert (ended.exit_code, ended.stdout) == (2, "")


@pytest.mark.parametrize("what", ["store", "logs"])
@pytest.mark.parametrize("flag", ["--limit", "--offset"])
def test_a_number_that_no_file_can_hold(flag: str, what: str, place: Path) -> None:
    ended = run("cat", place / what, flag, HUGE)
    assert ended.stderr == f"logdex: {flag} is {HUGE}\n        the largest number is 9223372036854775807\n"
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert run("cat", place / what, flag, (1 << 63) - 1).exit_code == 0


@pytest.mark.parametrize(("what", "part"), [("store", "queue"), ("logs", "partition")])
def test_the_end_is_exclusive_and_says_so(what: str, part: str, place: Path) -> None:
    ended = run("get", place / what, "--topic", "orders", f"--{part}", 0, "--offset", 1)
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert "goes from 0 to 1 (exclusive), continue " in ended.stderr


def test_a_physical_offset_behind_the_end(place: Path) -> None:
    with StoreSnapshot(place / "store") as store:
        end = store.valid_end_offset
    file = next((place / "store" / "commitlog").iterdir())
    for path in (place / "store", file):
        assert run("cat", path, "--physical-offset", end).exit_code == 0
        for behind in (end + 1, 4096, 10**15):
            ended = run("cat", path, "--physical-offset", behind)
            assert ended.stderr == (
                f"logdex: physical offset {behind} is behind the end of the log\n"
                f"        the log has offsets 0 to {end} (exclusive)\n"
            )
            assert (ended.exit_code, ended.stdout) == (2, "")


@pytest.mark.parametrize(
    "words",
    [
        ("rebuild", "store", "--output", ""),
        ("recover", "logs", "--output", ""),
        ("dispatch", "store", "--output", ""),
        ("export", "logs", "--output", ""),
        ("convert", "store", "--to", "kafka", "--output", ""),
        ("stats", "store", "--html", ""),
        ("info", "store", "--broker-conf", ""),
        ("info", ""),
    ],
)
def test_an_empty_path_is_not_the_current_directory(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable of the shell that was never set gives one."""
    monkeypatch.chdir(tmp_path)
    ended = run(*words)
    flag = words[-2] if len(words) > 2 else "PATH"
    assert ended.stderr == f"logdex: {flag} is empty\n        give a path, or . for the current directory\n"
    assert (ended.exit_code, [*tmp_path.iterdir()]) == (2, [])


@pytest.mark.parametrize("what", ["store", "logs"])
@pytest.mark.parametrize("seconds", ["nan", "inf", "1e300"])
def test_a_time_that_no_clock_can_wait(seconds: str, what: str, place: Path, tmp_path: Path) -> None:
    ended = run("dispatch", place / what, "--output", tmp_path / "out", "--follow", "--every", seconds)
    assert ended.exit_code == 2
    assert "--every" in ended.stderr


def test_odd_texts(place: Path) -> None:
    """A place of 5,000 digits, SQL that is not UTF-8, names of hosts that cannot be encoded."""
    reset = ("--group", "G", "--topic", "orders", "--reset-to")
    assert "the largest number is" in run("offsets", place / "store", *reset, "9" * 5000).stderr
    for words in (
        ("sql", str(place / "store"), "SELECT '\udcff'"),
        ("follow", "a" * 300 + ":1", "--output", str(place / "out")),
        ("follow", "localhost:" + "9" * 5000, "--output", str(place / "out")),
    ):
        ended = run(*words)
        assert ended.exit_code == 2
        assert "bug" not in ended.stderr


def test_hints_can_be_typed_as_they_are(tmp_path: Path) -> None:
    store = tmp_path / "my store"
    run("put", store, "--create", "rocketmq", "--topic", "T", "--body", "x")
    told = run("filter", store, "--topic", "T")
    assert f"logdex filter '{store}' --output DIR" in told.stderr
    assert "--in-place" not in told.stderr
    assert f"logdex info '{store}' lists" in run("get", store, "--offset", 0).stderr


@pytest.mark.parametrize("topic", ["a b", "a.b", "t" * 128, ""])
def test_a_topic_that_no_broker_takes(tmp_path: Path, topic: str) -> None:
    assert run("put", tmp_path / "store", "--create", "rocketmq", "--topic", "orders", "--body", "x").exit_code == 0
    told = run("put", tmp_path / "store", "--topic", topic, "--body", "x")
    assert (told.exit_code, "cannot be the name of a topic" in told.stderr) == (2, True), told


@pytest.mark.parametrize("path", ["store", "logs"])
def test_a_file_in_a_directory_that_is_not_there(place: Path, path: str) -> None:
    """It is said before the log is read, and the name is the one that was given."""
    for command in (("stats", place / path, "--html"), ("sql", place / path, "SELECT 1 AS one", "--parquet")):
        result = run(*command, place / "no where" / "found")
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"{command[-1]} {place}/no where/found: there is no directory {place}/no where" in result.stderr
        assert f"mkdir -p '{place}/no where'" in result.stderr
        (place / "a file").write_text("")
        result = run(*command, place / "a file" / "found")
        assert (result.exit_code, "mkdir" in result.stderr) == (2, False)
