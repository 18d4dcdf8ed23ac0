"""`logdex cat` for RocketMQ stores."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from logdex.cli.output import hint, note
from logdex.cli.views.rocketmq.messages import MessagePrinter
from logdex.jobs import look_again

if TYPE_CHECKING:
    from logdex.rocketmq.recognise.store_path import StorePath
    from logdex.rocketmq.scan.scanner import LogEnd
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot


def show(
    found: StorePath,
    settings: Mapping[str, Any],
    *,
    topic: str | None,
    queue: int | None,
    begin_ms: int | None,
    end_ms: int | None,
    offset: int | None,
    physical_offset: int | None,
    limit: int | None,
    follow: bool,
    decompress: bool,
    as_json: bool,
) -> bool:
    """Prints the messages that pass the filter, up to the end of the log. Returns whether the log
    ends cleanly."""
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

    with StoreSnapshot(found, **settings) as snapshot:
        printer = MessagePrinter(snapshot.commit_log, as_json=as_json, decompress=decompress)
        wanted = (topic, queue, begin_ms, end_ms)
        while True:
            scan = snapshot.scan(*wanted, start_offset=physical_offset, queue_offset=offset, limit=limit)
            count = 0
            for at, message in scan.items():
                printer.print(message, at)
                count += 1
            for path in scan.trimmed:
                note(f"{path}: removed by the broker meanwhile")
            limit = None if limit is None else limit - count
            if not follow or scan.end is None:
                break
            physical_offset = _wait(snapshot, scan.end)
    is_good = scan.end is None or tell_end(scan.end, found.path)
    return is_good and not printer.problems


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
    else:
        note(f"the log ends at offset {end.offset} ({end.kind.value}): {end.reason}")
        hint(f"logdex verify {path} lists all damage")
    return end.is_clean
