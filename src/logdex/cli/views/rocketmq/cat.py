"""`logdex cat` for RocketMQ stores."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from logdex.cli.output import note
from logdex.cli.rows.entries import print_entries
from logdex.cli.rows.in_bulk import is_bulk
from logdex.cli.rows.printer import print_end
from logdex.cli.rows.row_filter import RowFilter
from logdex.cli.rows.row_options import RowOptions
from logdex.cli.views.rocketmq.messages import MESSAGES, MessagePrinter, tell_damage, tell_deleted
from logdex.jobs import look_again
from logdex.jobs.tasks import threads_of

if TYPE_CHECKING:
    from logdex.rocketmq.commit_log.log_end import LogEnd
    from logdex.rocketmq.read.message_scan import LogScan
    from logdex.rocketmq.recognise.store_path import StorePath
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot


def show(
    found: StorePath,
    settings: Mapping[str, Any],
    *,
    topic: str | None,
    queue: int | None,
    begin_ms: int | None,
    end_ms: int | None,
    time_slack_ms: int | None,
    offset: int | None,
    physical_offset: int | None,
    limit: int | None,
    tail: int | None,
    follow: bool,
    grep: str | None,
    where: Sequence[str] | None,
    decompress: bool,
    jobs: int | None,
    rows: RowOptions,
) -> bool:
    """Prints the messages that pass the filter, up to the end of the log. Returns whether the log
    ends cleanly."""
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

    if found.has_entries:
        from logdex.rocketmq.recognise.store_path import StorePathKind
        from logdex.rocketmq.snapshot.file_entries import file_entries

        others: dict[str, object] = {"--topic": topic, "--queue": queue, "--from": begin_ms, "--to": end_ms}
        others |= {"--time-slack-ms": time_slack_ms, "--tail": tail}
        if found.kind is StorePathKind.CHECKPOINT:
            others["--offset"] = offset
        others |= {"--physical-offset": physical_offset, "--follow": follow, "--grep": grep, "--where": where}
        print_entries(file_entries(found, first=offset, **settings), rows, limit, others, found.description)
        return True
    wanted = RowFilter(MESSAGES, grep, where)
    with StoreSnapshot(found, **settings) as snapshot:
        printer = MessagePrinter(snapshot.commit_log, rows, decompress=decompress, wanted=wanted, limit=limit)
        bounds = (topic, queue, begin_ms, end_ms)
        seen: frozenset[int] = frozenset()
        if tail is not None:
            from logdex.cli.views.rocketmq.cat_tail import print_tail

            last = print_tail(snapshot, bounds, offset, physical_offset, tail, printer)
            if not follow or printer.is_done:
                return _end(rows, printer, None, last.problems, last.deleted, is_good=last.is_good)
            physical_offset, seen = last.newest, last.seen
        deleted: list[str] = []
        while True:
            first, most = physical_offset, printer.scan_limit
            whole = snapshot.scan(
                *bounds, start_offset=first, queue_offset=offset, limit=most, time_slack_ms=time_slack_ms
            )
            scan = whole.narrowed(wanted.conditions()) if wanted and not follow else whole
            if scan is None:
                return _end(rows, printer, None)
            size_bytes = snapshot.commit_log.size_bytes
            if not (wanted or follow) and is_bulk(rows, limit, size_bytes):
                printer.print_in_bulk(scan, threads_of(jobs, size_bytes))
            else:
                _print(scan, printer, seen)
            deleted += tell_deleted(scan)
            if not follow or scan.end is None or printer.is_done:
                break
            physical_offset = _wait(snapshot, scan.end)
    is_good = scan.end is None or tell_end(scan.end, found.path)
    return _end(rows, printer, scan.end, deleted=deleted, is_good=is_good)


def _end(
    rows: RowOptions,
    printer: MessagePrinter,
    end: LogEnd | None,
    problems: Sequence[str] = (),
    deleted: Sequence[str] = (),
    *,
    is_good: bool = True,
) -> bool:
    """Prints the last object of JSON lines, unless a limit ended them. Returns whether all is
    good."""
    is_good = is_good and not printer.problems
    if not (printer.is_done and is_good):
        print_end(
            rows,
            "cat",
            count=printer.printed,
            is_complete=is_good,
            problems=[*problems, *printer.problems],
            log_end=None if end is None else end_facts(end),
            deleted=deleted,
        )
    return is_good


def end_facts(end: LogEnd) -> dict[str, Any]:
    """Returns where and why a log ends, for programs."""
    return {"offset": end.offset, "kind": end.kind.value, "reason": end.reason}


def _print(scan: LogScan, printer: MessagePrinter, seen: frozenset[int]) -> None:
    with closing(scan.items()) as items:  # type: ignore[type-var]  # a generator
        for at, message in items:
            if at not in seen and not printer.print(message, at):
                return


def _wait(snapshot: StoreSnapshot, end: LogEnd) -> int:
    """Waits until the log goes on behind its end. Returns where to read on."""
    sys.stdout.flush()
    while True:
        look_again.pause()
        snapshot.refresh()
        now = snapshot.valid_end_offset
        if now < end.offset:
            note(f"the log was cut from offset {end.offset} back to {now}")
        if now != end.offset:
            return min(now, end.offset)


def tell_end(end: LogEnd, path: str) -> bool:
    """Reports where the log ends. Returns whether it ends cleanly."""
    if end.is_clean:
        note(f"end of the log at offset {end.offset}: {end.reason}")
    return tell_damage(end, path)
