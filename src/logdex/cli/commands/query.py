"""`logdex query`: finds messages by key, through the IndexFiles or key indexes."""

from __future__ import annotations

from typing import Annotated

import typer

from logdex.cli.app import PROBLEMS_FOUND, app, epilog
from logdex.cli.find_view import show
from logdex.cli.options import (
    DecompressOption,
    FromOption,
    GrepOption,
    PartitionOption,
    PathOptions,
    ToOption,
    WhereOption,
    path_command,
)
from logdex.cli.rows.row_options import RowOptions


@app.command(
    epilog=epilog(
        "logdex query store --topic orders --key order-100017",
        "logdex query store --topic orders --key customer-722 --from 2026-03-03 --to 2026-03-05 --max 5 --json",
        "logdex query store --topic orders --key order-100017 --broker-semantics",
        "logdex query store/commitlog/00000000000000000000 --topic orders --key order-100017",
        "logdex query logs --topic orders --key key-104",
        "logdex query logs/orders-1 --key key-104 --max 1 --json",
        notes="A key is one of a message's KEYS or its UNIQ_KEY. If the IndexFiles do not cover a part of the log, "
        "stderr states which, and the exit code is 1; --scan-missing searches that part in the log itself. A "
        "CommitLog file by itself is scanned. A Kafka record has one key; a log without a key index (see "
        "logdex rebuild --key-index) is scanned.",
    )
)
@path_command
def query(
    target: PathOptions,
    rows: RowOptions,
    topic: Annotated[str | None, typer.Option(help="The topic.", show_default=False)] = None,
    partition: PartitionOption = None,
    key: Annotated[str | None, typer.Option(help="The exact key.", show_default=False)] = None,
    tag: Annotated[str | None, typer.Option(help="A tag instead of a key (RocketMQ).", show_default=False)] = None,
    begin_ms: FromOption = None,
    end_ms: ToOption = None,
    max_num: Annotated[
        int | None,
        typer.Option("--max", help="The maximum number of messages; --cursor continues.", min=1, show_default=False),
    ] = None,
    cursor: Annotated[
        int | None, typer.Option(help="Continue where the previous page ended.", min=0, show_default=False)
    ] = None,
    grep: GrepOption = None,
    where: WhereOption = None,
    broker_semantics: Annotated[
        bool, typer.Option("--broker-semantics", help="Return what the broker returns: by hash, at most 64.")
    ] = False,
    scan_missing: Annotated[
        bool, typer.Option("--scan-missing", help="Also search the parts of the CommitLog that no IndexFile covers.")
    ] = False,
    key_index: Annotated[
        str | None,
        typer.Option(
            "--key-index", metavar="DIR", help="Where the .keyindex files are, if not in the log.", show_default=False
        ),
    ] = None,
    decompress: DecompressOption = False,
) -> None:
    """Find messages by key, newest first. Exit 0 good, 1 the answer may be incomplete, 2 cannot
    run."""
    is_good = show(
        "query",
        target,
        topic=topic,
        partition=partition,
        key=key,
        tag=tag,
        begin_ms=begin_ms,
        end_ms=end_ms,
        max_num=max_num,
        cursor=cursor,
        grep=grep,
        where=where or None,
        broker_semantics=broker_semantics,
        scan_missing=scan_missing,
        key_index=key_index,
        decompress=decompress,
        rows=rows,
    )
    if not is_good:
        raise typer.Exit(PROBLEMS_FOUND)
