"""`logdex query` for RocketMQ stores: messages by key or tag, through the IndexFiles."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from logdex.cli.output import hint, note
from logdex.cli.rows.printer import print_end
from logdex.cli.rows.row_filter import RowFilter
from logdex.cli.rows.row_options import RowOptions
from logdex.cli.views.rocketmq.cat import end_facts
from logdex.cli.views.rocketmq.messages import MESSAGES, MessagePrinter, note_one_file
from logdex.errors import UsageError
from logdex.primitives.shown import counted

if TYPE_CHECKING:
    from logdex.rocketmq.message.stored_message import StoredMessage
    from logdex.rocketmq.read.keys.key_search import KeySearch
    from logdex.rocketmq.read.results import OffsetRange
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
    grep: str | None,
    where: Sequence[str] | None,
    broker_semantics: bool,
    scan_missing: bool,
    decompress: bool,
    rows: RowOptions,
) -> bool:
    """Prints the messages with a key or a tag, newest first. Returns whether the answer is
    complete."""
    from logdex.rocketmq.recognise.require_store import require_store
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

    path = require_store(found).path
    if topic is None:
        raise UsageError("which topic?", hint=f"give --topic; logdex info {shlex.quote(path)} lists them")
    if (key is None) == (tag is None):
        raise UsageError("which messages?", hint="give either --key K or --tag T")
    text, index_type = (key, None) if key is not None else (tag or "", "T")
    wanted = RowFilter(MESSAGES, grep, where)
    with StoreSnapshot(found, **settings) as snapshot:
        snapshot.require_known(topic)
        printer = MessagePrinter(snapshot.commit_log, rows, decompress=decompress, wanted=wanted)
        more: dict[str, Any] = {"scan_missing": scan_missing, "cursor": cursor, "index_type": index_type}
        if broker_semantics:
            answer = snapshot.query_message(topic, text, begin_ms, end_ms, max_num, broker_semantics=True, **more)
            _print(zip(answer.phy_offsets, answer.messages, strict=True), printer, None)
            is_complete = not printer.problems
            print_end(rows, "query", count=printer.printed, is_complete=is_complete, problems=printer.problems)
            return is_complete
        search = snapshot.search_messages(topic, text, begin_ms, end_ms, **more)
        with closing(search.items()) as items:
            next_cursor = _print(items, printer, max_num)
        is_whole = note_one_file(snapshot)
        log_end = end_facts(snapshot.valid_end) if search.behind_end or not is_whole else None
    if next_cursor is not None:
        note(f"there are more: continue with --cursor {next_cursor}")
    missing = () if search.source.log.is_one_file else search.source.missing  # `note_one_file` reported those
    is_complete = _tell_completeness(search, missing, scan_missing)
    is_complete = is_complete and is_whole and not printer.problems
    print_end(
        rows,
        "query",
        count=printer.printed,
        has_more=next_cursor is not None,
        next_cursor=next_cursor,
        is_complete=is_complete,
        missing=[list(each) for each in missing],
        is_missing_scanned=scan_missing,
        entries_behind_end=search.behind_end,
        log_end=log_end,
        problems=[*(problem.message for problem in search.problems), *printer.problems],
    )
    return is_complete


def _print(items: Iterable[tuple[int, StoredMessage]], printer: MessagePrinter, max_num: int | None) -> int | None:
    """Prints messages with their physical offsets as they are found. Returns where the next page
    begins if there are more than `max_num`."""
    last = None
    for at, message in items:
        if printer.wants(message, at):
            if printer.printed == max_num:
                return last
            printer.print(message, at)
        last = at
    if not printer.printed:
        note("no message found")
    return None


def _tell_completeness(search: KeySearch, missing: Sequence[OffsetRange], scan_missing: bool) -> bool:
    """Reports what the answer may lack. Returns whether it is complete."""
    for problem in search.problems:
        note(problem.message)
    if search.behind_end:
        what = counted(search.behind_end, "index entry points", "index entries point")
        note(f"{what} past the end of the CommitLog: logdex cat states why it ends there")
    if missing:
        ranges = ", ".join(f"{begin} to {end}" for begin, end in missing[:RANGES_TOLD])
        more = len(missing) - RANGES_TOLD
        where = f"{ranges} and {counted(more, 'range')} more" if more > 0 else ranges
        size = sum(end - begin for begin, end in missing)
        note(f"no IndexFile covers {counted(size, 'byte')} of the CommitLog: offsets {where}")
        hint(
            "they were searched in the log itself" if scan_missing else "--scan-missing searches them in the log itself"
        )
    if not search.is_complete:
        note("the answer may be incomplete")
    return search.is_complete
