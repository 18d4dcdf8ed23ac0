"""`logdex info`: shows what a store contains."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from logdex.cli.app import PROBLEMS_FOUND, app, ends_with, epilog
from logdex.cli.find_view import find, view_of
from logdex.cli.options import PathOptions, path_command
from logdex.cli.output import emit_json, note
from logdex.errors import UsageError
from logdex.formats import format_of


@app.command(
    epilog=epilog(
        "logdex info store",
        "logdex info store --json",
        "logdex info store --json --store",
        "logdex info store/commitlog/00000000000000000000",
        "logdex info store/checkpoint --json",
        "logdex info logs",
        "logdex info logs/orders-0 --json",
        notes="Reads only the ends of files; `logdex verify` checks what is between. The log is scanned if a store "
        "has no consumequeue/ or PATH is a CommitLog file. For a ConsumeQueue file, an IndexFile, the "
        "checkpoint or a file of config/, its content is summarised. In a Kafka log directory "
        "__consumer_offsets is read for the consumer groups.",
    )
)
@path_command
def info(
    target: PathOptions,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line per queue or partition.")] = False,
    of_store: Annotated[
        bool, typer.Option("--store", help="With --json: one object for the whole store or log directory.")
    ] = False,
) -> None:
    """Show topics, queues or partitions, offsets, times, sizes, geometry, and whether it was closed
    cleanly.

    Exit 0 good, 1 something could not be read or is missing, 2 cannot run. A torn end of a
    CommitLog is shown, and is no problem by itself.
    """
    if of_store and not as_json:
        raise UsageError("--store goes with --json", hint=f"logdex info {shlex.quote(target.path)} --json --store")
    found = find(target)
    look, view = format_of(found).overview(found, target.settings), view_of(found.format, "info")
    if look.problems:
        ends_with(PROBLEMS_FOUND)
    if as_json:
        for each in [look] if of_store else view.parts(look):
            emit_json(each.to_json())
    else:
        view.print_overview(found, look)
    for problem in look.problems:
        note(problem)
    if look.problems:
        raise typer.Exit(PROBLEMS_FOUND)
