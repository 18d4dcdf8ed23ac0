"""`logdex cat` for RocketMQ stores."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from logdex.cli.output import hint, note
from logdex.cli.rows.entries import print_entries
from logdex.cli.rows.in_bulk import is_bulk
from logdex.cli.rows.printer import print_end
from logdex.cli.rows.row_filter import RowFilter
from logdex.cli.rows.row_options import RowOptions
from logdex.cli.views.rocketmq.messages import MESSAGES, MessagePrinter, tell_damage, tell_deleted
from logdex.errors import UsageError
from logdex.io.env import DEFAULT_ENV
from logdex.jobs import look_again
from logdex.jobs.tasks import threads_of

if TYPE_CHECKING:
    from logdex.rocketmq.commit_log.log_end import LogEnd
    from logdex.rocketmq.read.message_scan import LogScan
    from logdex.rocketmq.recognise.store_path import StorePath
    from logdex.rocketmq.snapshot.read_mark import SeenMessages
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
    from logdex.rocketmq.snapshot.read_mark import SeenMessages
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
        bounds, start = (topic, queue, begin_ms, end_ms), physical_offset
        seen, printed = SeenMessages(snapshot.commit_log), frozenset[int | None]()
        if tail is not None:
            from logdex.cli.views.rocketmq.cat_tail import print_tail, seen_before_tail

            seen = seen_before_tail(snapshot, bounds) if follow else seen
            last = print_tail(snapshot, bounds, offset, physical_offset, tail, printer)
            if not follow or printer.is_done:
                return _end(rows, printer, None, last.problems, last.deleted, is_good=last.is_good)
            start, printed = last.newest, frozenset({*last.printed, last.newest})
            for at, message in last.printed.items():
                seen.add(at, message)
        scan_from = partial(snapshot.scan, *bounds, queue_offset=offset, time_slack_ms=time_slack_ms)
        if follow:
            deleted = _follow(snapshot, scan_from, printer, physical_offset, start, seen, printed)
            return _end(rows, printer, None, deleted=deleted)
        whole = scan_from(start_offset=physical_offset, limit=printer.scan_limit)
        scan = whole.narrowed(wanted.conditions()) if wanted else whole
        if scan is None:
            return _end(rows, printer, None)
        size_bytes = snapshot.commit_log.size_bytes
        if not wanted and is_bulk(rows, limit, size_bytes):
            printer.print_in_bulk(scan, threads_of(jobs, size_bytes))
        else:
            _print(scan, printer)
        deleted = tell_deleted(scan)
    is_good = scan.end is None or tell_end(scan.end, found.path)
    if offset and not printer.printed and not wanted:
        note(f"no such message: --offset {offset} is a queue offset")
        hint("--physical-offset is the byte in the CommitLog that each line shows behind `at`")
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


def _print(
    scan: LogScan,
    printer: MessagePrinter,
    seen: SeenMessages | None = None,
    printed: frozenset[int | None] = frozenset(),
) -> None:
    """Prints the messages of a scan that are not `printed` yet, and adds all to `seen`."""
    with closing(scan.items()) as items:  # type: ignore[type-var]  # a generator
        for at, message in items:
            if at not in printed and not printer.print(message, at):
                return
            if seen is not None:
                seen.add(at, message)


def _follow(
    snapshot: StoreSnapshot,
    scan_from: Callable[..., LogScan],
    printer: MessagePrinter,
    begin: int | None,
    start: int | None,
    seen: SeenMessages,
    printed: frozenset[int | None],
) -> list[str]:
    """Prints the messages from `start` on that are not `printed` yet, and waits for more, until the
    printer is done. Where the log is cut, it goes back, at most to `begin`. Returns the files that
    the broker removed meanwhile."""
    deleted: list[str] = []
    while not printer.is_done:
        back = _place_behind_cut(snapshot, begin, start, seen)
        if back is not None:
            start, printed = back, frozenset()
        if start != snapshot.valid_end_offset:
            try:
                scan = scan_from(start_offset=start)
                _print(scan, printer, seen, printed)
                deleted += tell_deleted(scan)
                if scan.end is None:
                    break
                start, printed = scan.end.offset, frozenset()
            except UsageError:  # no message begins there any more
                if not seen.is_cut():
                    raise
        _wait(snapshot, start, seen)
    return deleted


def _place_behind_cut(snapshot: StoreSnapshot, begin: int | None, start: int | None, seen: SeenMessages) -> int | None:
    """Returns where to go on, which is not before `begin`, if the log was cut since it was read up
    to `start`. Returns None if it was not."""
    from logdex.rocketmq.scan.log_walk import next_message_start

    end, log = snapshot.valid_end, snapshot.commit_log
    goes_on_at = seen.look(end)
    if goes_on_at is None:
        return None
    first = max(goes_on_at, begin or 0, log.min_offset)
    back = min(next_message_start(log, first, snapshot.config, DEFAULT_ENV), end.offset)
    note(f"the log was cut from offset {start} back to {back}")
    return back


def _wait(snapshot: StoreSnapshot, end_offset: int | None, seen: SeenMessages) -> None:
    """Waits until the log goes on behind its end, or is cut."""
    sys.stdout.flush()
    while True:
        look_again.pause()
        snapshot.refresh()
        if snapshot.valid_end_offset != end_offset or seen.is_cut():
            return


def tell_end(end: LogEnd, path: str) -> bool:
    """Reports where the log ends. Returns whether it ends cleanly."""
    if end.is_clean:
        note(f"end of the log at offset {end.offset}: {end.reason}")
    return tell_damage(end, path)
