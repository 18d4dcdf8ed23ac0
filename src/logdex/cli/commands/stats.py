"""`logdex stats`: counts messages by topic, queue, hour and key, and shows the lag of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from logdex.cli.app import PROBLEMS_FOUND, app, epilog
from logdex.cli.engines import Engine, EngineOption, JobsOption, MasterOption, runner_of
from logdex.cli.find_view import find, log_source, note_unfinished
from logdex.cli.options import (
    FromOption,
    IsolationOption,
    JsonOption,
    PartitionOption,
    PathOptions,
    QueueOption,
    ToOption,
    TopicOption,
    path_command,
    require_folder_of,
)
from logdex.cli.output import emit, emit_json, human_size, human_time, note, note_losses, table
from logdex.formats import format_of
from logdex.primitives.shown import counted

if TYPE_CHECKING:
    from logdex.convert.stats import StatsReport

_ROWS = 10


@app.command(
    epilog=epilog(
        "logdex stats store",
        "logdex stats store --topic orders --from 2026-03-03T08:00 --json",
        "logdex stats logs --html logs.html",
        notes="Bytes are those of messages as RocketMQ stores them, and of Kafka's keys and values. The skew of a "
        "topic is how many times as many messages its largest queue or partition has as the mean of them. The "
        "page of --html has plots and needs no network.",
    )
)
@path_command
def stats(
    target: PathOptions,
    topic: TopicOption = None,
    queue: QueueOption = None,
    partition: PartitionOption = None,
    begin_ms: FromOption = None,
    end_ms: ToOption = None,
    isolation: IsolationOption = None,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Also write a page with plots.", show_default=False)
    ] = None,
    engine: EngineOption = Engine.LOCAL,
    master: MasterOption = None,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count messages by topic, queue, hour and key. Exit 0 good, 1 the log is damaged, 2 cannot
    run."""
    require_folder_of("--html", html)
    source = log_source(
        target, topic=topic, queue=queue, partition=partition, begin_ms=begin_ms, end_ms=end_ms, isolation=isolation
    )
    from logdex.convert.stats import stats as count

    found = find(target)
    is_whole = note_unfinished(found)
    with runner_of("stats", format_of(found).log_size_bytes(found), engine, master, jobs) as runner:
        report = count(source, runner, engine=engine)
    if html is not None:
        _write_page(report, html, found.path)
    if as_json:
        emit_json(report.to_json())
    else:
        _print(report)
    note_losses(report.notes, report.losses, "not counted")
    if report.lossy or not is_whole:
        raise typer.Exit(PROBLEMS_FOUND)


def _write_page(report: StatsReport, path: str, title: str) -> None:
    from logdex.convert.stats.html_page import html_page
    from logdex.io.atomic_file import write_atomically
    from logdex.io.env import DEFAULT_ENV

    write_atomically(path, html_page(report, title).encode("utf-8", "backslashreplace"), env=DEFAULT_ENV)
    note(f"wrote {path}")


def _print(report: StatsReport) -> None:
    emit(f"{counted(report.messages, 'message')}, {human_size(report.size_bytes)}, in {report.seconds:.1f} s")
    topics = [
        (each.topic, f"{each.messages:,}", human_size(each.bytes), f"{each.queues:,}", f"{each.skew:.2f}")
        for each in report.topics[:_ROWS]
    ]
    table([("topic", "messages", "bytes", "queues", "skew"), *topics], right=(1, 2, 3, 4))
    if len(report.topics) > _ROWS:
        emit(f"  and {counted(len(report.topics) - _ROWS, 'other topic')}; --json has all")
    if report.hours:
        busiest = max(report.hours, key=lambda each: each.messages)
        emit(f"  busiest hour  {human_time(busiest.hour_ms)}, {counted(busiest.messages, 'message')}")
    for key in report.keys[:3]:
        name = key.key or "''"
        emit(f"  frequent key  {name} of {key.topic}, {counted(key.messages, 'message')}")
    lags = [(each.group, each.topic, str(each.queue), f"{each.lag:,}") for each in report.groups[:_ROWS]]
    if lags:
        table([("group", "topic", "queue", "lag"), *lags], right=(2, 3))
