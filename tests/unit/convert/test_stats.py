"""Figures of a log, and the page that shows them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.dom import minidom

import pytest

from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.stats import counts, stats
from logdex.convert.stats.html_page import html_page
from logdex.convert.stats.report import HourFigures, StatsReport
from logdex.kafka import Log, Record
from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager
from tests.cli.helpers import run, run_json
from tests.unit.convert.export.lakes import Row, rows_of
from tests.unit.convert.export.test_job import messages, store
from tests.unit.rocketmq.small_stores import FILE_SIZE, build

HOURS = 491_026
"""2026-01-06 10:00 in hours since 1970."""


def test_counts_and_bytes_are_those_of_the_rows(tmp_path: Path) -> None:
    source = store(tmp_path / "store")
    report, rows = stats(source, top_keys=100), rows_of(source)
    assert report.messages == len(rows) == 40
    assert report.size_bytes == sum(row["sizeBytes"] for row in rows)
    assert len({row["sizeBytes"] for row in rows}) > 1
    topics = summed(rows, lambda row: [row["topic"]])
    assert {each.topic: (each.messages, each.bytes) for each in report.topics} == topics
    queues = summed(rows, lambda row: [(row["topic"], row["queueId"])])
    assert {(each.topic, each.queue): (each.messages, each.bytes) for each in report.queues} == queues
    hours = summed(rows, lambda row: [row["storeTimestamp"] // 3_600_000_000 * 3_600_000])
    assert {each.hour_ms: (each.messages, each.bytes) for each in report.hours} == hours
    keys = summed(rows, lambda row: [(row["topic"], key) for key in row["keys"]])
    assert {(each.topic, each.key): (each.messages, each.bytes) for each in report.keys} == keys
    assert (report.keys_are_exact, report.losses) == (True, [])


def summed(rows: list[Row], places: Callable[[Row], list[Any]]) -> dict[Any, tuple[int, int]]:
    """The number and the bytes of the rows that are of each place."""
    found: dict[Any, tuple[int, int]] = {}
    for row in rows:
        for place in places(row):
            messages, size = found.get(place, (0, 0))
            found[place] = (messages + 1, size + row["sizeBytes"])
    return found


def test_the_skew_is_the_largest_queue_beside_the_mean(tmp_path: Path) -> None:
    for partition, count in enumerate((3, 1)):
        with Log.open(str(tmp_path / f"events-{partition}")) as log:
            log.append([Record(value=b"x")] * count)
    (topic,) = stats(LogDirSource(str(tmp_path))).topics
    assert (topic.queues, topic.messages, topic.skew) == (2, 4, 1.5)


def test_lag_of_the_groups_that_a_broker_kept(golden_log: Callable[[str], Path]) -> None:
    groups = stats(LogDirSource(str(golden_log("tiny-broker")))).groups
    assert [(each.group, each.topic, each.queue, each.offset, each.end_offset, each.lag) for each in groups] == [
        ("billing", "orders", 0, 50, 171, 121),
        ("billing", "audit.log", 0, 10, 60, 50),
        ("mailing", "audit.log", 0, 33, 60, 27),
    ]


def test_frequent_keys_are_kept_where_memory_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "KEYS_MAX", 4)
    monkeypatch.setattr(counts, "_JOINED_MAX", 1)
    with Log.open(str(tmp_path / "events-0")) as log:
        for number in range(30):
            log.append([Record(key=key, value=b"x") for key in (b"hot", b"k%d" % number, None)])
    report = stats(LogDirSource(str(tmp_path)))
    assert report.messages == 90
    assert (report.keys[0].key, report.keys[0].messages, report.keys_are_exact) == ("hot", 30, False)
    assert report.size_bytes == 90 + 30 * 3 + sum(len(f"k{number}") for number in range(30))


def test_the_command_and_its_page(tmp_path: Path) -> None:
    build(tmp_path / "store", messages(12))
    ConsumerOffsetManager(str(tmp_path / "store")).commit_offset("g", "TopicA", 0, 1)
    page = tmp_path / "page.html"
    (report,) = run_json("stats", tmp_path / "store", "--html", page, *_flags())
    assert (report["messages"], report["lossy"]) == (12, False)
    (group,) = report["groups"]
    assert (group["group"], group["topic"], group["offset"]) == ("g", "TopicA", 1)
    assert group["lag"] == group["end_offset"] - 1
    text = page.read_text("utf-8")
    assert "http" not in text
    assert "<script" not in text
    svg = text[text.index("<svg") : text.index("</svg>") + 6]
    minidom.parseString(svg)
    shown = run("stats", tmp_path / "store", *_flags()).stdout
    assert "12 messages" in shown
    assert "busiest hour" in shown


def _flags() -> list[object]:
    return ["--mapped-file-size-commit-log", FILE_SIZE, "--mapped-file-size-consume-queue", 320]


@pytest.mark.parametrize(
    ("other_hours", "words", "shown"),
    [
        (0, "hour", "2026-01-06 10:00 to 2026-01-06 11:00: 90,000"),
        (499, "hour", "2026-01-06 10:00 to 2026-01-06 11:00: 90,000"),
        (500, "3 hours", "2026-01-06 09:00 to 2026-01-06 12:00: 90,000"),
        (7_000, "day", "2026-01-06 00:00 to 2026-01-07 00:00: 90,000"),
        (HOURS, "6 weeks", "2026-01-01 00:00 to 2026-02-12 00:00: 90,000"),
    ],
)
def test_the_chart_says_what_time_each_column_is_of(other_hours: int, words: str, shown: str) -> None:
    """One record of time 0 makes all columns wide."""
    found = [HourFigures((HOURS - other_hours) * 3_600_000, 1, 1)] if other_hours else []
    page = html_page(StatsReport(hours=[*found, HourFigures(HOURS * 3_600_000, 90_000, 1)]), "t")
    assert f"<h2>Messages per {words}</h2>" in page
    assert f"<title>{shown}</title>" in page
    assert page.count("<title>") == 1 + len(found) + 1
    assert page.count("<rect") <= 501


def test_nothing_to_count(tmp_path: Path) -> None:
    with Log.open(str(tmp_path / "events-0")):
        pass
    report = stats(LogDirSource(str(tmp_path)))
    assert (report.messages, report.topics, report.keys) == (0, [], [])
    assert "none" in html_page(report, "<script>")
    assert "<script>" not in html_page(report, "<script>")
