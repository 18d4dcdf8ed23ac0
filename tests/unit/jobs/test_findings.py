"""The collector of findings: what was looked at while it changed is dropped again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import logdex
from logdex.errors import UsageError
from logdex.jobs.findings import FindingCollector
from logdex.kafka.verify import checks as kafka
from logdex.rocketmq.verify import checks as rocketmq

SOURCES = Path(logdex.__file__).parent


def test_what_was_collected_since_a_mark_is_dropped() -> None:
    out = FindingCollector({"size": "", "crc": ""}, ["note"], "store", 2)
    out.find("size", "a", 0, "before")
    out.info("note", "a", "before")
    out.files = 1
    mark = out.mark()
    out.find("crc", "b", 4, "since")
    out.find("crc", "b", 8, "since, and one too many")
    out.info("note", "b", "since")
    out.files = 3
    out.back_to(mark)
    report = out.report(messages=0, size_bytes=0, seconds=0)
    assert [finding.path for finding in report.findings] == ["a"]
    assert [info.path for info in report.infos] == ["a"]
    assert (report.files, report.truncated) == (1, 0)
    out.find("crc", "b", 4, "again")
    assert len(out.findings()) == 2


def test_the_commands_repeat_the_settings_and_quote_the_path() -> None:
    out = FindingCollector({}, [], "a store", 1, flags=" --max-index-num 8")
    assert out.rebuild == "logdex rebuild 'a store' --output DIR --max-index-num 8"


def test_notes_are_requested_by_name_too() -> None:
    out = FindingCollector({"size": ""}, ["late", "early"], "store", 2, ["late"])
    out.info("early", "a", "not requested")
    out.info("late", "a", "requested")
    out.find("size", "a", 0, "not requested")
    report = out.report(messages=0, size_bytes=0, seconds=0)
    assert ([info.kind for info in report.infos], report.findings) == (["late"], [])
    with pytest.raises(UsageError, match="no such check: erly") as error:
        FindingCollector({"size": ""}, ["late", "early"], "store", 2, ["erly"])
    assert error.value.hint == "did you mean early?"


@pytest.mark.parametrize("engine", ["kafka", "rocketmq"])
def test_every_note_has_a_name_that_can_be_requested(engine: str) -> None:
    known = {"kafka": kafka.NOTES | kafka.CHECKS.keys(), "rocketmq": rocketmq.NOTES | rocketmq.CHECKS.keys()}
    calls = re.compile(r"\.info\(\s*\"([a-z-]+)\"")
    names = {name for path in (SOURCES / engine / "verify").rglob("*.py") for name in calls.findall(path.read_text())}
    assert len(names) > 15
    assert names <= known[engine]
