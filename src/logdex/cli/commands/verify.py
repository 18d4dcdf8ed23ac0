"""`logdex verify`: checks whether a store is whole and whether its indexes agree with its log."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from logdex.cli.app import PROBLEMS_FOUND, app, ends_with, epilog
from logdex.cli.engines import Engine, EngineOption, JobsOption, MasterOption, runner_of
from logdex.cli.find_view import find
from logdex.cli.options import PathOptions, path_command
from logdex.cli.output import as_typed, emit, emit_json, fail, hint, human_size, note, table
from logdex.formats import format_of
from logdex.io.env import DEFAULT_ENV
from logdex.primitives.shown import counted

if TYPE_CHECKING:
    from logdex.jobs.findings import Finding, Info, VerifyReport

_PAGE_FINDINGS = 10
"""So many findings are seen at once. More are counted by check and file at the end."""
_PLACES_MAX = 20
_INFOS_SHOWN = 5
"""How many notes of one kind the text lists."""


@app.command(
    epilog=epilog(
        "logdex verify store",
        "logdex verify store --json",
        "logdex verify store --check message-crc --check torn-tail",
        "logdex verify store/commitlog/00000000000000000000",
        "logdex verify logs",
        "logdex verify store --jobs 2",
        notes="Reads everything and changes nothing. In a CommitLog file by itself the messages are checked, and no "
        "index. The tasks of --jobs and --engine spark are groups of a log directory's partitions, or parts of a "
        "RocketMQ store's CommitLog; the report does not depend on them. With --json there is one line per finding "
        "(with a `check`), one per piece of information (with a `kind`), and the report as the last line.",
    )
)
@path_command
def verify(
    target: PathOptions,
    check: Annotated[
        list[str] | None,
        typer.Option("--check", metavar="NAME", help="Only this check, or these notes; may be repeated."),
    ] = None,
    max_findings: Annotated[
        int, typer.Option(help="The maximum number of findings to show; all are counted.", min=0)
    ] = 1000,
    engine: EngineOption = Engine.LOCAL,
    master: MasterOption = None,
    jobs: JobsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines on stdout; the last one is the report.")] = False,
) -> None:
    """Check all messages or records, and the log against its indexes. Exit 0 good, 1 findings, 2
    cannot run."""
    if engine is Engine.SPARK:  # workers have working directories of their own
        target = replace(target, path=DEFAULT_ENV.real_path(target.path))
    found = find(target)
    checked = format_of(found)
    with runner_of("verify", checked.log_size_bytes(found), engine, master, jobs) as runner:
        report = checked.verify(found, target.settings, max_findings=max_findings, checks=check or None, runner=runner)
    if engine is Engine.SPARK:
        report.engine, report.tasks = engine.value, runner.tasks
    if report.unsettled is not None:
        fail(report.unsettled.message, report.unsettled.hint)
    if not report.is_sound:
        ends_with(PROBLEMS_FOUND)
    if as_json:
        for finding in report.findings:
            emit_json(finding.to_json())
        for info in report.infos:
            emit_json(info.to_json())
        emit_json(report.to_json())
    else:
        _print(report, checked.log_title)
    if not report.is_sound:
        raise typer.Exit(PROBLEMS_FOUND)


def _print(report: VerifyReport, of_what: str) -> None:
    for finding in report.findings:
        _print_finding(finding)
    _print_infos(report.infos)
    count = len(report.findings) + report.truncated
    looked = f"{counted(report.messages, 'message')}, {human_size(report.bytes)} of {of_what}"
    files = counted(report.files, "file")
    emit(f"{counted(count, 'finding') if count else 'No findings'} in {looked}, {files}, {report.seconds:.1f} s")
    if len(report.findings) > _PAGE_FINDINGS:
        _print_places(report.findings)
    if report.truncated:
        emit(f"{counted(report.truncated, 'finding')} not shown: --max-findings shows more")
    if any(" --output DIR" in finding.mend for finding in report.findings):
        note("--output DIR writes new files there and leaves the ones here as they are")
        hint("--in-place instead replaces them, and keeps the old ones under names with the date")


def _print_infos(infos: list[Info]) -> None:
    """Prints pieces of information, of each kind the first ones."""
    counts = Counter[str]()
    for info in infos:
        counts[info.kind] += 1
        if counts[info.kind] <= _INFOS_SHOWN:
            emit(f"{info.path}: note: {info.message} [{info.kind}]")
    for kind, count in counts.items():
        if count > _INFOS_SHOWN:
            emit(f"{counted(count - _INFOS_SHOWN, 'more note')} [{kind}]: --check {kind} --json lists all")


def _print_places(findings: list[Finding]) -> None:
    """Prints how many findings of each check are in each file, the most first."""
    places = Counter((finding.check, finding.path) for finding in findings).most_common()
    table([(f"{count:,}", check, path) for (check, path), count in places[:_PLACES_MAX]], right=[0])
    if len(places) > _PLACES_MAX:
        rest = sum(count for _, count in places[_PLACES_MAX:])
        emit(f"  {rest:,} more in {counted(len(places) - _PLACES_MAX, 'place')}")


def _print_finding(finding: Finding) -> None:
    emit(f"{finding.path}: byte {finding.position}: {finding.message} [{finding.check}]")
    if finding.expected or finding.found:
        emit(f"    expected {finding.expected or '-'}, found {finding.found or '-'}")
    if finding.mend:
        emit(f"    mend: {as_typed(finding.mend)}")
