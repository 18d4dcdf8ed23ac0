"""Options: names in any case, values that are checked, and errors that name the nearest option."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from logdex.errors import UsageError
from logdex.formats import FORMATS
from logdex.spark.sources.options import Options, camel_case, format_settings
from logdex.spark.sources.table import ReadOptions

KNOWN = ("columns", "mode", "failOnDataLoss", "maxPartitionBytes", "minPartitions", "startingOffsets")


def options(**given: str) -> Options:
    return Options("some_log", given, KNOWN)


def test_names_have_any_case() -> None:
    assert options(FAILONDATALOSS="TRUE").boolean("failOnDataLoss", False)
    assert options(failondataloss="false").text("failOnDataLoss") == "false"


@pytest.mark.parametrize(("name", "hint"), [("startingOffset", "startingOffsets"), ("max_bytes", "maxPartitionBytes")])
def test_unknown_option_names_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=rf"some_log has no option '{name.lower()}' \(did you mean {hint}\?\)"):
        options(**{name: "1"})


def test_unknown_option_far_from_all() -> None:
    with pytest.raises(UsageError, match="choose from columns, mode"):
        options(zzz="1")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("2023-11-14T22:13:20Z", "1700000000000"),
        ("2023-11-14 22:13:20", "1700000000000"),
        ("2023-11-15T00:13:20.5+02:00", "1700000000500"),
        ("yesterday", "1764374400000"),
        ("-5", "1764374400000"),
    ],
)
def test_times_are_milliseconds(text: str, hint: str) -> None:
    given = Options("some_log", {"startingTimestamp": text}, ("startingTimestamp",))
    with pytest.raises(UsageError, match=f"say milliseconds since the epoch, such as {hint}[)]$"):
        given.time_ms("startingTimestamp")
    assert options().time_ms("startingTimestamp") is None


@pytest.mark.parametrize(("text", "is_told"), [("1700000000", True), ("1700000000000", False), ("5", False)])
def test_times_in_seconds_are_told(text: str, is_told: bool) -> None:
    given = Options("some_log", {"endingTimestamp": text}, ("startingTimestamp", "endingTimestamp"))
    notes = given.times_in_seconds()
    assert given.time_ms("endingTimestamp") == int(text)
    assert [f"endingTimestamp is {text} ms, which is early in 1970" in note for note in notes] == [True] * is_told


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("64m", 64 << 20), ("1g", 1 << 30), ("10 KB", 10 << 10), ("2MiB", 2 << 20)]
)
def test_sizes(text: str, size: int) -> None:
    assert options(maxPartitionBytes=text).size_bytes("maxPartitionBytes", 7) == size


@pytest.mark.parametrize(
    ("text", "seconds"), [("15m", 900), ("15min", 900), ("30 S", 30), ("500ms", 0.5), ("250", 0.25), ("1h", 3600)]
)
def test_times(text: str, seconds: float) -> None:
    assert options(mode=text).seconds("mode", 7) == seconds
    assert options().seconds("mode", 7) == 7


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("maxPartitionBytes", "0", lambda o: o.size_bytes("maxPartitionBytes", 7)),
        ("maxPartitionBytes", "64x", lambda o: o.size_bytes("maxPartitionBytes", 7)),
        ("minPartitions", "0", lambda o: o.integer("minPartitions", 1)),
        ("minPartitions", "two", lambda o: o.integer("minPartitions", 1)),
        ("failOnDataLoss", "yes", lambda o: o.boolean("failOnDataLoss", True)),
        ("mode", "15 years", lambda o: o.seconds("mode", 7)),
        ("columns", "topic,,body", lambda o: o.names("columns")),
    ],
)
def test_wrong_values(name: str, value: str, read: Callable[[Options], Any]) -> None:
    with pytest.raises(UsageError, match=f"the option {name} is '{value}'"):
        read(options(**{name: value}))


def test_a_mode_may_be_misspelt() -> None:
    with pytest.raises(UsageError, match="did you mean PERMISSIVE"):
        ReadOptions.of(options(mode="permisive"))
    assert ReadOptions.of(options(mode="permissive")).mode == "PERMISSIVE"


def test_settings_have_the_brokers_names() -> None:
    assert camel_case("mapped_file_size_commit_log") == "mappedFileSizeCommitLog"
    named = format_settings(FORMATS["rocketmq"])
    assert named["maxIndexNum"] == ("max_index_num", True)
    assert named["rocketmqVersion"] == ("rocketmq_version", False)
    given = Options("s", {"maxindexnum": "7", "rocketmqVersion": "5.5.0"}, tuple(named))
    assert given.settings(FORMATS["rocketmq"]) == {"max_index_num": 7, "rocketmq_version": "5.5.0"}
    assert format_settings(FORMATS["kafka"])["indexIntervalBytes"] == ("index_interval_bytes", True)
