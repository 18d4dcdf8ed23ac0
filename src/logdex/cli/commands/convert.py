"""`logdex convert`: writes the messages of one format as a directory of the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from logdex.cli.app import DONE_BUT_LOSSY, app, epilog
from logdex.cli.engines import Engine, EngineOption, JobsOption, MasterOption, runner_of
from logdex.cli.find_view import find, log_source, note_unfinished
from logdex.cli.options import (
    IsolationOption,
    JsonOption,
    NewOutputOption,
    NoSpaceCheckOption,
    NoSyncOption,
    PartitionOption,
    PathOptions,
    QueueOption,
    TopicOption,
    format_option,
    output_of,
    path_command,
)
from logdex.cli.output import emit, emit_json, human_size, note_losses
from logdex.errors import UsageError
from logdex.formats import format_of
from logdex.io.env import Env
from logdex.primitives.shown import counted

if TYPE_CHECKING:
    from logdex.convert.translate import ConvertReport


@app.command(
    epilog=epilog(
        "logdex convert store --output kafka-logs --to kafka --topic orders",
        "logdex convert store --output kafka-logs --to kafka --topic orders --json",
        "logdex convert logs --output new-store --to rocketmq",
        notes="A queue becomes the partition of that number, with the same offsets; keys, tags and properties become "
        "headers, and a header holds the rest of the message, so that a conversion back restores it. A Kafka "
        "record becomes a message of the queue of that number; a property holds what a message has no place "
        "for. Committed offsets of consumer groups are translated. Of Kafka what a reader of committed records "
        "sees is converted, unless --isolation-level says otherwise; what cannot be carried has a line in the "
        "report.",
    )
)
@path_command
def convert(
    target: PathOptions,
    to: Annotated[str, format_option("--to")],
    output: NewOutputOption = None,
    topic: TopicOption = None,
    queue: QueueOption = None,
    partition: PartitionOption = None,
    isolation: IsolationOption = None,
    engine: EngineOption = Engine.LOCAL,
    master: MasterOption = None,
    jobs: JobsOption = None,
    no_sync: NoSyncOption = False,
    no_space_check: NoSpaceCheckOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a store as Kafka logs, or Kafka logs as a store. Exit 0 good, 2 cannot run, 3 done but
    lossy."""
    written_to = output_of(f"convert --to {to}", target.path, output)
    assert written_to is not None
    found = find(target)
    if found.format == to:
        raise UsageError(f"{found.path} is {found.description} already", hint="--to names the other format")
    is_whole = note_unfinished(found)
    source = log_source(target, topic=topic, queue=queue, partition=partition, isolation=isolation)
    from logdex.convert.translate import convert as run_convert

    env = Env(check_space=not no_space_check)
    size_bytes = format_of(found).log_size_bytes(found)
    env.require_free(written_to, size_bytes)
    with runner_of("convert", size_bytes, engine, master, jobs) as runner:
        report = run_convert(source, written_to, runner, engine=engine, sync=not no_sync, env=env)
    if as_json:
        emit_json(report.to_json())
    else:
        _print(report, written_to)
    note_losses(report.notes, report.losses, "not converted")
    if report.lossy or not is_whole:
        raise typer.Exit(DONE_BUT_LOSSY)


def _print(report: ConvertReport, output: str) -> None:
    emit(
        f"Converted {counted(report.messages, 'message')} of {human_size(report.bytes)} to "
        f"{counted(report.files, 'queue or partition', 'queues or partitions')} and the offsets of "
        f"{counted(report.groups, 'group')} in {output}, in {report.seconds:.1f} s, engine {report.engine}"
    )
