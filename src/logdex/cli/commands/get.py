"""`logdex get`: reads messages of one queue through its ConsumeQueue, or of one partition through
its sparse indexes."""

from __future__ import annotations

from typing import Annotated

import typer

from logdex.cli.app import PROBLEMS_FOUND, app, epilog
from logdex.cli.find_view import show
from logdex.cli.options import (
    ControlOption,
    DecompressOption,
    GrepOption,
    IsolationOption,
    PartitionOption,
    PathOptions,
    WhereOption,
    path_command,
    time_option,
)
from logdex.cli.rows.row_options import RowOptions
from logdex.errors import UsageError


@app.command(
    epilog=epilog(
        "logdex get store --topic orders --queue 0 --offset 100 --count 2",
        "logdex get store --topic orders --queue 0 --offset 0 --tag 'created || completed' --json",
        "logdex get store --topic orders --queue 0 --time 2026-03-05T12:00:00Z --count 1",
        "logdex get store/commitlog/00000000000000000000 --topic orders --queue 0 --offset 0 --count 1",
        "logdex get logs --topic orders --partition 0 --offset 40 --count 2",
        "logdex get logs/orders-0 --time 2023-11-14T22:13:20Z --count 1 --json",
        notes="The status and the next offset are printed on stderr. --grep and --where choose among the messages that "
        "are read, of which --count is the maximum. A CommitLog file by itself has no index, so it is scanned.",
    )
)
@path_command
def get(
    target: PathOptions,
    rows: RowOptions,
    topic: Annotated[str | None, typer.Option(help="The topic.", show_default=False)] = None,
    queue: Annotated[int | None, typer.Option(help="The queue id (RocketMQ).", show_default=False)] = None,
    partition: PartitionOption = None,
    offset: Annotated[
        int | None, typer.Option(help="Begin at this offset in the queue or partition.", show_default=False)
    ] = None,
    time_ms: Annotated[
        int | None, time_option("--time", "Begin at the first message stored at or after this time.")
    ] = None,
    count: Annotated[int, typer.Option(help="The maximum number of messages.", min=1)] = 32,
    max_bytes: Annotated[
        int | None,
        typer.Option(help="The maximum size of all messages, but at least one message.", min=1, show_default=False),
    ] = None,
    tag: Annotated[
        str | None,
        typer.Option(
            "--tag",
            metavar="EXPR",
            help="Only messages with one of these tags: 'a || b', or * for all.",
            show_default=False,
        ),
    ] = None,
    grep: GrepOption = None,
    where: WhereOption = None,
    control: ControlOption = False,
    isolation: IsolationOption = None,
    decompress: DecompressOption = False,
) -> None:
    """Read a queue or partition through its index, as a consumer does. Exit 0 good, 1 damage found,
    2 cannot run."""
    if (offset is None) == (time_ms is None):
        raise UsageError("from where?", hint="give either --offset N or --time T")
    is_good = show(
        "get",
        target,
        topic=topic,
        queue=queue,
        partition=partition,
        offset=offset,
        time_ms=time_ms,
        count=count,
        max_bytes=max_bytes,
        tag=tag,
        grep=grep,
        where=where or None,
        control=control,
        isolation=isolation,
        decompress=decompress,
        rows=rows,
    )
    if not is_good:
        raise typer.Exit(PROBLEMS_FOUND)
