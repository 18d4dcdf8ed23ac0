"""`logdex filter`: writes some of a log's messages as a new directory of the same format."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from logdex.cli.app import DONE_BUT_LOSSY, app, epilog
from logdex.cli.find_view import show
from logdex.cli.options import (
    FromOption,
    GrepOption,
    IsolationOption,
    JsonOption,
    NewOutputOption,
    NoSpaceCheckOption,
    NoSyncOption,
    OffsetOption,
    PartitionOption,
    PathOptions,
    PhysicalOffsetOption,
    QueueOption,
    ToOption,
    TopicOption,
    WhereOption,
    output_of,
    path_command,
)
from logdex.jobs.settings import given_flags, typed_flags


@app.command(
    name="filter",
    epilog=epilog(
        "logdex filter store --output some-orders --topic orders --from 2026-03-03T08:00",
        "logdex filter store --output one-customer --topic orders --grep customer-722 --json",
        "logdex filter logs --output new-logs --topic orders --where 'offset >= 40'",
        "logdex filter logs --output from-zero --topic orders --offset 40 --new-offsets",
        notes="Kafka: the records that a reader of committed records sees, with their offsets unless --new-offsets is "
        "given, in new batches without producers and transactions. RocketMQ: messages are put in the order of the "
        "log; their offsets and MessageIDs are new, all else stays. Topics in which an engine keeps what it has yet "
        "to deliver, and with new offsets Kafka's topics of offsets, are left out with a line on stderr. Filters "
        "have the meaning that they have for cat.",
    ),
)
@path_command
def filter_messages(
    target: PathOptions,
    output: NewOutputOption = None,
    topic: TopicOption = None,
    queue: QueueOption = None,
    partition: PartitionOption = None,
    begin_ms: FromOption = None,
    end_ms: ToOption = None,
    offset: OffsetOption = None,
    physical_offset: PhysicalOffsetOption = None,
    limit: Annotated[
        int | None, typer.Option(help="The maximum number of messages.", min=1, show_default=False)
    ] = None,
    grep: GrepOption = None,
    where: WhereOption = None,
    isolation: IsolationOption = None,
    new_offsets: Annotated[
        bool, typer.Option("--new-offsets", help="Number the records of each partition anew from 0 (Kafka).")
    ] = False,
    no_sync: NoSyncOption = False,
    no_space_check: NoSpaceCheckOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write some of a log's messages as a new store or log directory. Exit 0 good, 2 cannot run, 3
    done but lossy."""
    written_to = output_of("filter", target.path, output)
    own: dict[str, Any] = {"topic": topic, "queue": queue, "partition": partition, "begin_ms": begin_ms}
    own |= {"end_ms": end_ms, "offset": offset, "physical_offset": physical_offset, "grep": grep}
    own |= {"limit": limit, "where": where or None, "isolation": isolation, "new_offsets": new_offsets}
    told = {target.flag(name): value for name, value in own.items()}
    is_whole = show(
        "filter",
        target,
        **own,
        output=written_to,
        flags=typed_flags(told) + given_flags(target.settings),
        sync=not no_sync,
        check_space=not no_space_check,
        as_json=as_json,
    )
    if not is_whole:
        raise typer.Exit(DONE_BUT_LOSSY)
