"""`logdex cat`: prints the messages of a store in the order of its log."""

from __future__ import annotations

from typing import Annotated

import typer

from logdex.cli.app import PROBLEMS_FOUND, app, epilog
from logdex.cli.engines import JobsOption
from logdex.cli.find_view import show
from logdex.cli.options import (
    ControlOption,
    DecompressOption,
    FollowOption,
    FromOption,
    GrepOption,
    IsolationOption,
    OffsetOption,
    PartitionOption,
    PathOptions,
    PhysicalOffsetOption,
    QueueOption,
    TimeSlackOption,
    ToOption,
    TopicOption,
    WhereOption,
    path_command,
)
from logdex.cli.rows.row_options import RowOptions


@app.command(
    epilog=epilog(
        "logdex cat store --limit 3",
        "logdex cat store --topic orders --queue 0 --offset 2000 --limit 2 --json",
        "logdex cat store --topic payments --from 2026-03-03T08:00 --to 2026-03-03T09:00",
        "logdex cat store --topic payments --tail 2 --values json",
        "logdex cat store --topic orders --grep /order-10001[0-9]/ --where 'queue_offset >= 1' --format '%k\\t%v\\n'",
        "logdex cat store --topic payments --follow --limit 3",
        "logdex cat store/commitlog/00000000000000000000 --limit 3",
        "logdex cat logs --topic orders --partition 0 --offset 40 --limit 3",
        "logdex cat logs --tail 1 --where 'partition = 0' --columns topic,offset,key",
        "logdex cat logs/orders-0/00000000000000000000.log --control --json",
        notes="A CommitLog ends at the first message that is incomplete or fails its CRC, as for the broker: the "
        "messages before it are printed, and stderr states why the log ends there. In a Kafka log bad batches "
        "are skipped and reported. All records in the files are printed unless --isolation-level is given, "
        "one partition after the other by name, and internal topics such as __consumer_offsets last. Times alone "
        "leave no part of a log unread behind --to, because clocks may go back: --limit, --offset and --where on "
        "offsets do, and --time-slack-ms. --jobs is "
        "about whole logs as plain lines or --json: their text is made in threads.",
    )
)
@path_command
def cat(
    target: PathOptions,
    rows: RowOptions,
    topic: TopicOption = None,
    queue: QueueOption = None,
    partition: PartitionOption = None,
    begin_ms: FromOption = None,
    end_ms: ToOption = None,
    time_slack_ms: TimeSlackOption = None,
    offset: OffsetOption = None,
    physical_offset: PhysicalOffsetOption = None,
    limit: Annotated[
        int | None, typer.Option(help="The maximum number of messages.", min=1, show_default=False)
    ] = None,
    tail: Annotated[
        int | None,
        typer.Option(
            "--tail", metavar="N", help="Only the last N of each queue or partition.", min=0, show_default=False
        ),
    ] = None,
    follow: FollowOption = False,
    grep: GrepOption = None,
    where: WhereOption = None,
    control: ControlOption = False,
    isolation: IsolationOption = None,
    decompress: DecompressOption = False,
    jobs: JobsOption = None,
) -> None:
    """Print messages in log order. Exit 0 good, 1 the log is torn or corrupt, 2 cannot run."""
    is_good = show(
        "cat",
        target,
        topic=topic,
        queue=queue,
        partition=partition,
        begin_ms=begin_ms,
        end_ms=end_ms,
        time_slack_ms=time_slack_ms,
        offset=offset,
        physical_offset=physical_offset,
        limit=limit,
        tail=tail,
        follow=follow,
        grep=grep,
        where=where or None,
        control=control,
        isolation=isolation,
        decompress=decompress,
        jobs=jobs,
        rows=rows,
    )
    if not is_good:
        raise typer.Exit(PROBLEMS_FOUND)
