"""`logdex query` for RocketMQ stores: messages by key or tag, through the IndexFiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from logdex.cli.output import hint, human_count, note
from logdex.cli.views.rocketmq.messages import MessagePrinter, note_one_file
from logdex.errors import UsageError

if TYPE_CHECKING:
    from logdex.rocketmq.read.results import QueryMessageResult
    from logdex.rocketmq.recognise.store_path import StorePath

RANGES_TOLD = 3


def show(
    found: StorePath,
    settings: Mapping[str, Any],
    *,
    topic: str | None,
    key: str | None,
    tag: str | None,
    begin_ms: int | None,
    end_ms: int | None,
    max_num: int | None,
    cursor: int | None,
    broker_semantics: bool,
    scan_missing: bool,
    decompress: bool,
    as_json: bool,
) -> bool:
    """Prints the messages with a key or a tag, newest first. Returns whether the answer is
    complete."""
    from logdex.rocketmq.recognise.require_store import require_store
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

    path = require_store(found).path
    if topic is None:
        raise UsageError("which topic?", hint=f"give --topic; logdex info {path} lists them")
    if (key is None) == (tag is None):
        raise UsageError("which messages?", hint="give either --key K or --tag T")
    with StoreSnapshot(found, **settings) as snapshot:
        printer = MessagePrinter(snapshot.commit_log, as_json=as_json, decompress=decompress)
        result = snapshot.query_message(
            *(topic, key if key is not None else tag or "", begin_ms, end_ms, max_num),
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
        note(f"there are more: continue with --cursor {result.next_cursor}")
    if is_one_file:
        result = replace(result, missing=())  # searched, as `note_one_file` reported
    is_complete = broker_semantics or _tell_completeness(result, scan_missing)
    return is_complete and is_whole and not printer.problems


def _tell_completeness(result: QueryMessageResult, scan_missing: bool) -> bool:
    """Reports what the answer may lack. Returns whether it is complete."""
    for problem in result.unreadable:
        note(problem.message)
    if result.behind_end:
        what = human_count(result.behind_end, "index entry points", "index entries point")
        note(f"{what} past the end of the CommitLog: logdex cat states why it ends there")
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
