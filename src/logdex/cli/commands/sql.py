"""`logdex sql`: asks a store or a log directory in SQL."""

from __future__ import annotations

from typing import Annotated

import typer

from logdex.cli.app import PROBLEMS_FOUND, app, epilog
from logdex.cli.find_view import show
from logdex.cli.options import (
    ControlOption,
    IsolationOption,
    JsonOption,
    PathOptions,
    TimeSlackOption,
    path_command,
    require_folder_of,
)
from logdex.errors import UsageError


@app.command(
    epilog=epilog(
        'logdex sql store "SELECT topic, count(*) FROM messages GROUP BY topic"',
        "logdex sql store \"SELECT * FROM message_keys WHERE topic = 'orders' AND key = 'order-100017'\" --json",
        'logdex sql store "SELECT queue_id, max(store_timestamp) FROM messages GROUP BY ALL" --csv',
        'logdex sql logs "SELECT * FROM consumer_offsets ORDER BY lag DESC"',
        notes="The tables of a RocketMQ store are messages, message_keys (a row per key of a message), queues, "
        "segments, index_entries and consumer_offsets; those of a Kafka log records, partitions, segments, "
        "index_entries and consumer_offsets. DESCRIBE messages lists the columns of one. Only what a query needs "
        "is read: its columns, and the parts of the log that its conditions on topic, queue or partition, offset, "
        "time and key leave. The SQL is DuckDB's: pip install 'logdex[sql]'.",
    )
)
@path_command
def sql(
    target: PathOptions,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A statement in SQL.", show_default=False)],
    csv: Annotated[bool, typer.Option("--csv", help="CSV on stdout, with a line of names.")] = False,
    parquet: Annotated[
        str | None, typer.Option("--parquet", metavar="FILE", help="Write a new Parquet file.", show_default=False)
    ] = None,
    control: ControlOption = False,
    isolation: IsolationOption = None,
    time_slack_ms: TimeSlackOption = None,
    decompress: Annotated[bool, typer.Option("--decompress", help="Decompress compressed bodies (RocketMQ).")] = False,
    as_json: JsonOption = False,
) -> None:
    """Ask in SQL, through DuckDB. Exit 0 good, 1 a log that was read is torn or corrupt, 2 cannot
    run."""
    if sum((csv, as_json, parquet is not None)) > 1:
        raise UsageError("--csv, --json and --parquet exclude each other", hint="give one of them")
    require_folder_of("--parquet", parquet)
    form = "csv" if csv else "json" if as_json else "table"
    options = {"control": control, "isolation": isolation, "time_slack_ms": time_slack_ms, "decompress": decompress}
    if not show("sql", target, query=query, form=form, parquet=parquet, **options):
        raise typer.Exit(PROBLEMS_FOUND)
