"""`logdex consume`: reads a topic as a consumer, and remembers how far."""

from __future__ import annotations

from typing import Annotated

import typer

from logdex.cli.app import PROBLEMS_FOUND, app, epilog
from logdex.cli.find_view import show
from logdex.cli.options import (
    DecompressOption,
    FollowOption,
    GrepOption,
    PathOptions,
    TopicOption,
    WhereOption,
    path_command,
)
from logdex.cli.rows.row_options import RowOptions
from logdex.errors import UsageError


@app.command(
    epilog=epilog(
        "logdex consume store --topic orders --group billing --limit 2",
        "logdex consume store --topic orders --group audit --tag 'created || completed' --json --limit 1",
        notes="What was printed is committed, batch by batch: the next run goes on behind it. If this process dies, "
        "what was not committed comes again. What --grep and --where leave out is consumed, and is not printed. In a "
        "RocketMQ store several processes of one group share the queues, messages that a consumer sent back come "
        "again, and nothing can be committed while a broker runs. In Kafka's directories a group is a named reader of "
        "Logdex, in .logdex-readers, which brokers and their groups do not know; one process at a time reads under a "
        "name.",
    )
)
@path_command
def consume(
    target: PathOptions,
    rows: RowOptions,
    topic: TopicOption = None,
    group: Annotated[str | None, typer.Option("--group", help="The consumer group.", show_default=False)] = None,
    tag: Annotated[
        str | None,
        typer.Option(
            "--tag",
            metavar="EXPR",
            help="Only messages with one of these tags: 'a || b' (RocketMQ).",
            show_default=False,
        ),
    ] = None,
    start: Annotated[str, typer.Option(help="Where a new group starts: first or last.")] = "first",
    follow: FollowOption = False,
    grep: GrepOption = None,
    where: WhereOption = None,
    limit: Annotated[
        int | None, typer.Option(help="The maximum number of messages.", min=1, show_default=False)
    ] = None,
    decompress: DecompressOption = False,
) -> None:
    """Read what a group has not consumed yet, and commit it. Exit 0 good, 1 damage found, 2 cannot
    run."""
    if group is None:
        raise UsageError("which group?", hint="give --group G; logdex offsets PATH lists those that are known")
    if start not in ("first", "last"):
        raise UsageError(f"--start is {start}", hint="give --start first or --start last")
    is_good = show(
        "consume",
        target,
        topic=topic,
        group=group,
        tag=tag,
        start=start,
        follow=follow,
        grep=grep,
        where=where or None,
        limit=limit,
        decompress=decompress,
        rows=rows,
    )
    if not is_good:
        raise typer.Exit(PROBLEMS_FOUND)
