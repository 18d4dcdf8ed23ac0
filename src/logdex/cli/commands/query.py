"""`logdex query`: messages by key, through the IndexFiles or key indexes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from logdex.cli.app import PROBLEMS_FOUND, app, epilog
from logdex.cli.options import FromOption, PartitionOption, StoreOptions, ToOption, store_command
from logdex.cli.output import hint, human_count, note
from logdex.cli.views.kafka.paths import kafka_path
from logdex.cli.views.kafka.query import query_kafka
from logdex.cli.views.rocketmq.output import DecompressOption, MessageJsonOption, MessagePrinter
from logdex.cli.views.rocketmq.stores import note_one_file, open_store
from logdex.errors import UsageError

if TYPE_CHECKING:
    from logdex.rocketmq.read.results import QueryMessageResult

RANGES_TOLD = 3


@app.command(
    epilog=epilog(
        "logdex query store --topic orders --key order-100017",
        "logdex query store --topic orders --key customer-722 --from 2026-03-03 --to 2026-03-05 --max 5 --json",
        "logdex query store --topic orders --key order-100017 --broker-semantics",
        "logdex query store/commitlog/00000000000000000000 --topic orders --key order-100017",
        "logdex query logs --topic orders --key key-104",
        "logdex query logs/orders-1 --key key-104 --max 1 --json",
        notes="A key is one of a message's KEYS or its UNIQ_KEY. Where the IndexFiles have lost a part of the log, "
        "stderr says which, and the exit code is 1; --scan-missing searches that part in the log itself. A CommitLog "
        "file by itself is scanned. A record of Kafka's has one key; its log is read where no key index is (logdex "
        "rebuild makes one).",
    )
)
@store_command
def query(
    store: StoreOptions,
    topic: Annotated[str | None, typer.Option(help="The topic.", show_default=False)] = None,
    partition: PartitionOption = None,
    key: Annotated[str | None, typer.Option(help="The key, exactly.", show_default=False)] = None,
    tag: Annotated[str | None, typer.Option(help="A tag instead of a key (RocketMQ).", show_default=False)] = None,
    begin_ms: FromOption = None,
    end_ms: ToOption = None,
    max_num: Annotated[
        int | None, typer.Option("--max", help="At most so many; the rest with --cursor.", min=1, show_default=False)
    ] = None,
    cursor: Annotated[
        int | None, typer.Option(help="Go on where the page before ended.", min=0, show_default=False)
    ] = None,
    broker_semantics: Annotated[
        bool, typer.Option("--broker-semantics", help="Just what the broker answers: by hash, at most 64.")
    ] = False,
    scan_missing: Annotated[
        bool, typer.Option("--scan-missing", help="Search what no IndexFile covers in the CommitLog.")
    ] = False,
    key_index: Annotated[
        str | None,
        typer.Option(
            "--key-index", metavar="DIR", help="Where the .keyindex files are, if not in the log.", show_default=False
        ),
    ] = None,
    decompress: DecompressOption = False,
    as_json: MessageJsonOption = False,
) -> None:
    """Find messages by key, newest first. Exit 0 good, 1 the answer may lack something, 2 cannot run."""
    found = kafka_path(
        store,
        rocketmq={
            "--tag": tag,
            "--cursor": cursor,
            "--broker-semantics": broker_semantics,
            "--scan-missing": scan_missing,
            "--decompress": decompress,
        },
        kafka={"--partition": partition, "--key-index": key_index},
    )
    if found is not None:
        query_kafka(
            found,
            store,
            topic=topic,
            partition=partition,
            key=key,
            begin_ms=begin_ms,
            end_ms=end_ms,
            max_num=max_num,
            key_index=key_index,
            as_json=as_json,
        )
        return
    _query_store(
        store,
        (topic, key, tag),
        (begin_ms, end_ms),
        max_num=max_num,
        cursor=cursor,
        broker_semantics=broker_semantics,
        scan_missing=scan_missing,
        decompress=decompress,
        as_json=as_json,
    )


def _query_store(
    store: StoreOptions,
    question: tuple[str | None, str | None, str | None],
    times: tuple[int | None, int | None],
    *,
    max_num: int | None,
    cursor: int | None,
    broker_semantics: bool,
    scan_missing: bool,
    decompress: bool,
    as_json: bool,
) -> None:
    """The query of a RocketMQ store."""
    topic, key, tag = question
    if topic is None:
        raise UsageError("which topic?", hint=f"say --topic; logdex info {store.path} lists them")
    if (key is None) == (tag is None):
        raise UsageError("which messages?", hint="say --key K or --tag T, one of them")
    with open_store(store) as snapshot:
        printer = MessagePrinter(snapshot.commit_log, as_json=as_json, decompress=decompress)
        result = snapshot.query_message(
            topic,
            key if key is not None else tag or "",
            *times,
            max_num,
            broker_semantics=broker_semantics,
            scan_missing=scan_missing,
            cursor=cursor,
            index_type=None if key is not None else "T",
        )
        for at, message in zip(result.phy_offsets, result.messages, strict=True):
            printer.print(message, at)
        is_whole = note_one_file(snapshot)
        is_one_file = snapshot.commit_log.is_one_file
    if not result.messages:
        note("no message found")
    if result.next_cursor is not None:
        note(f"there are more: go on with --cursor {result.next_cursor}")
    if is_one_file:
        result = replace(result, missing=())  # it was searched, and this was said
    is_complete = broker_semantics or _tell_completeness(result, scan_missing)
    if printer.problems or not is_complete or not is_whole:
        raise typer.Exit(PROBLEMS_FOUND)


def _tell_completeness(result: QueryMessageResult, scan_missing: bool) -> bool:
    """Says what the answer may lack; whether it lacks nothing."""
    for problem in result.unreadable:
        note(problem.message)
    if result.behind_end:
        what = human_count(result.behind_end, "index entry points", "index entries point")
        note(f"{what} behind the end of the CommitLog: logdex cat says why it ends there")
    if result.missing:
        ranges = ", ".join(f"{begin} to {end}" for begin, end in result.missing[:RANGES_TOLD])
        more = len(result.missing) - RANGES_TOLD
        where = f"{ranges} and {human_count(more, 'range')} more" if more > 0 else ranges
        size = sum(end - begin for begin, end in result.missing)
        note(f"no IndexFile covers {human_count(size, 'byte')} of the CommitLog: offsets {where}")
        hint(
            "they were searched in the log itself" if scan_missing else "--scan-missing searches them in the log itself"
        )
    if not result.complete:
        note("the answer may be incomplete")
    return result.complete
