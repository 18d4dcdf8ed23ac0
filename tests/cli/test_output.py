"""Text, JSON lines, sizes and times as commands print and take them."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from logdex.cli import output
from logdex.cli.progress_bars import progress_bar
from logdex.cli.times import parse_time
from logdex.errors import UsageError
from logdex.rocketmq.recover.report import RecoverReport, Skipped


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"plain", "plain"),
        ("Gda\u0144sk".encode(), "Gda\u0144sk"),
        (b"a\xffb", "a\\xffb"),
        (b"a\x1b[2Jb\n", "a\\x1b[2Jb\\x0a"),
        ("name\udcfe", "name\\xfe"),
        ("lone\ud800", "lone\\ud800"),
    ],
)
def test_shown(value: bytes | str, text: str) -> None:
    assert output.shown(value) == text


@given(st.text(st.characters(codec=None, categories=None)))
def test_json_lines_are_valid_utf8_and_json(text: str) -> None:
    stream = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", stream)
        output.emit_json({"value": text, text: 1})
    line = stream.getvalue()
    line.encode("utf-8")
    assert line.endswith("\n")
    assert isinstance(json.loads(line)["value"], str)
    if not re.search("[\ud800-\udfff]", text):
        assert json.loads(line)["value"] == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (10589146, "10.1 MiB"), (3 << 50, "3072.0 TiB")]
)
def test_human_size(size: int, text: str) -> None:
    assert output.human_size(size) == text


def test_a_table_lines_up_where_characters_are_wide(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("TAGS", "ID"), ("日本語", "7"), ("plain", "12"), ("cafe\u0301", "日本"), ("a\x1bb", "345")]
    output.table(rows, right=(1,), indent="")
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "plain     12"
    assert {cell_len(line) for line in lines} == {len("a\\x1bb  2345")}
    output.table(rows, indent="")
    lines = capsys.readouterr().out.splitlines()
    assert {cell_len(line[: line.index(row[1])]) for line, row in zip(lines, rows, strict=True)} == {8}


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("0", 0),
        ("1700000000123", 1700000000123),
        ("-1", -1),
        ("99999999999999999999"[:19], (1 << 63) - 1),
        ("2026-03-02", 1772409600000),
        ("2026-03-02T00:00:00", 1772409600000),
        ("2026-03-02T00:00:00.250Z", 1772409600250),
        ("2026-03-02 01:00+01:00", 1772409600000),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_parse_time(text: str, time_ms: int) -> None:
    assert parse_time(text) == time_ms


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "1e9", "1" * 30, "٣"])
def test_what_is_no_time_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_time(text)


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)))
def test_times_round_trip(moment: datetime) -> None:
    text = output.human_time(parse_time(moment.isoformat()))
    assert parse_time(text) == parse_time(moment.isoformat())


def test_a_time_that_no_calendar_has_is_a_number() -> None:
    assert output.human_time((1 << 63) - 1) == str((1 << 63) - 1)
    assert output.human_time(None) == "-"


def test_the_bar_shows_messages_speed_and_time_left() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120)
    with progress_bar("rebuild", 1 << 20, console) as progress:
        progress(12_345, 1 << 19)
    shown = stream.getvalue()
    assert "rebuild" in shown
    assert "12,345 messages" in shown
    assert "MiB" in shown or "KiB" in shown


def test_no_bar_where_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("rebuild", 100) as progress:
        progress(1, 1)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("rows", "losses", "text"),
    [
        ([], [], "nothing"),
        ([(0, 9, False)], [], "nothing"),
        ([(3, 2051, True), (0, 9, False)], [], "2.0 KiB"),
        ([(0, 0, True)], [], "1 file of unknown size"),
        ([(0, 0, True), (0, 7, True), (0, 0, True)], ["x"], "7 B and 2 files of unknown size"),
        ([], ["x"], "nothing of the log itself, but what is stated below"),
    ],
)
def test_a_loss_is_stated_as_far_as_it_is_known(
    rows: list[tuple[int, int, bool]], losses: list[str], text: str
) -> None:
    skipped = [Skipped("file", start, end, "why", 0, is_loss=is_loss) for start, end, is_loss in rows]
    assert output.human_loss(RecoverReport(skipped=skipped, losses=losses)) == text
