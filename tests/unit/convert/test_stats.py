"""Figures of a log, and the page that shows them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from xml.dom import minidom

import pytest

from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.stats import counts, stats
from logdex.convert.stats.html_page import html_page
from logdex.convert.stats.report import HourFigures, StatsReport
from logdex.kafka import Log, Record
from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager
from tests.cli.helpers import run, run_json
from tests.unit.convert.export.lakes import rows_of
from tests.unit.convert.export.test_job import messages, store
from tests.unit.rocketmq.small_stores import FILE_SIZE, build

HOURS = 491_026
"""2026-01-06 10:00 in hours since 1970."""


def test_counts_are_those_of_the_rows(tmp_path: Path) -> None:
    source = store(tmp_path / "store")
    report, rows = stats(source), rows_of(source)
    assert report.messages == len(rows) == 40
    assert report.size_bytes == sum(row["sizeBytes"] for row in rows)
    assert {each.topic: each.messages for each in report.topics} == Counter(row["topic"] for row in rows)
    assert {(each.topic, each.queue): each.messages for each in report.queues} == Counter(
        (row["topic"], row["queueId"]) for row in rows
    )
    hours = Counter(row["storeTimestamp"] // 3_600_000_000 * 3_600_000 for row in rows)
    assert {each.hour_ms: each.messages for each in report.hours} == hours
    assert len(report.keys) == 20
    assert (report.keys[0].messages, report.keys_are_exact, report.losses) == (1, True, [])


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
