"""A third format is one entry in the registry and one folder of views: no command changes for
it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

import logdex
from logdex.cli.output import emit
from logdex.cli.rows.row_options import RowOptions
from logdex.formats import FORMATS, Format, RebuildJob, RecoverJob
from logdex.io.path_look import PathLook
from logdex.jobs.findings import VerifyReport
from logdex.jobs.reports import RebuildReport
from tests.cli.helpers import run, run_json


class Kind(Enum):
    JOURNAL = "a journal"


@dataclass(frozen=True)
class JournalPath:
    format: ClassVar[str] = "journal"
    path: str
    kind: Kind = Kind.JOURNAL
    description: str = "a journal"


@dataclass
class Overview:
    lines: int
    problems: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"lines": self.lines}


def recognise(look: PathLook) -> JournalPath | None:
    return JournalPath(look.path) if look.path.endswith(".journal") and look.is_file() else None


def lines_of(found: JournalPath) -> list[str]:
    return Path(found.path).read_text().splitlines()


def rebuild(found: JournalPath, settings: Mapping[str, Any], output: str, **_: Any) -> RebuildJob:
    report = RebuildReport(messages=len(lines_of(found)), bytes=7, seconds=1.0)
    return RebuildJob(output, 7, lambda progress: report, lambda runner, engine: report)


FORMAT = Format(
    name="journal",
    title="Journal",
    paths=("a .journal file",),
    log_title="journal",
    settings=(),
    recognise=recognise,
    why_not=lambda look, hint: None,
    open=lambda found, *, env, **settings: lines_of(found),
    overview=lambda found, settings: Overview(len(lines_of(found))),
    unfinished=lambda found, **_: [],
    log_size_bytes=lambda found: 7,
    verify=lambda found, settings, **_: VerifyReport(messages=len(lines_of(found))),
    rebuild=rebuild,
    recover=lambda found, settings, output, **_: RecoverJob(output, 7, lambda progress: None),
)


def show(found: JournalPath, settings: Mapping[str, Any], *, limit: int | None, rows: RowOptions) -> bool:
    for line in lines_of(found)[:limit]:
        emit(line)
    return True


VIEWS: dict[str, dict[str, Any]] = {
    "cat": {"show": show},
    "info": {"parts": lambda look: [look], "print_overview": lambda found, look: emit(f"{look.lines} lines")},
    "rebuild": {
        "source": lambda report: f"{report.messages} lines",
        "rows": lambda report, output: [("file", output)],
        "print_notes": lambda found, report: None,
    },
}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(FORMATS, "journal", FORMAT)
    for command, functions in VIEWS.items():
        name = f"logdex.cli.views.journal.{command}"
        module = ModuleType(name)
        vars(module).update(functions)
        monkeypatch.setitem(sys.modules, name, module)
    path = tmp_path / "x.journal"
    path.write_text("one\ntwo\nthree\n")
    return path


def test_commands_and_open_take_it(path: Path, tmp_path: Path) -> None:
    opened: Any = logdex.open(path)
    assert opened == ["one", "two", "three"]
    assert run("cat", path, "--limit", 2).stdout == "one\ntwo\n"
    assert run("info", path).stdout == "3 lines\n"
    assert run_json("info", path) == [{"lines": 3}]
    assert run("verify", path).stdout.startswith("No findings in 3 messages, 0 B of journal")
    assert run("rebuild", path, "-o", tmp_path / "out").stdout.startswith("Rebuilt from 3 lines")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--queue", "1"], "--queue is a flag of RocketMQ's"),
        (["--from", "1", "--isolation-level", "x"], "--from and --isolation-level are flags of RocketMQ and Kafka's"),
        (["--max-index-num", "1"], "--max-index-num is a flag of RocketMQ's"),
    ],
)
def test_what_it_does_not_have_is_refused_by_name(flags: list[str], told: str, path: Path) -> None:
    refused = run("cat", path, *flags)
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"logdex: {told}, and {path} is a journal\n")


def test_hints_name_its_paths(path: Path) -> None:
    told = run("info", path.parent).stderr
    assert "a topic-N directory, a .log file or a .journal file" in told


@pytest.mark.parametrize("words", [["put", "--body", "x"], ["query", "--key", "k"], ["offsets"]])
def test_a_command_that_it_has_no_view_of_says_so(words: list[str], path: Path) -> None:
    refused = run(words[0], path, *words[1:])
    assert (refused.exit_code, refused.stderr) == (2, f"logdex: logdex {words[0]} does nothing with paths of Journal\n")
