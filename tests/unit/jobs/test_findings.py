"""The collector of findings: what was looked at while it changed is dropped again."""

from __future__ import annotations

from logdex.jobs.findings import FindingCollector


def test_what_was_collected_since_a_mark_is_dropped() -> None:
    out = FindingCollector({"size": "", "crc": ""}, "store", 2)
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
    out = FindingCollector({}, "a store", 1, flags=" --max-index-num 8")
    assert out.rebuild == "logdex rebuild 'a store' --output DIR --max-index-num 8"
