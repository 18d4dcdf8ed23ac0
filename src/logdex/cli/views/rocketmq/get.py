"""`logdex get` for RocketMQ stores: the read through a ConsumeQueue."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from logdex.cli.output import hint, note
from logdex.cli.rows.printer import print_end
from logdex.cli.rows.row_filter import RowFilter
from logdex.cli.rows.row_options import RowOptions
from logdex.cli.views.rocketmq.cat import end_facts
from logdex.cli.views.rocketmq.messages import MESSAGES, MessagePrinter, note_one_file
from logdex.errors import OffsetOutOfRangeError, UsageError

if TYPE_CHECKING:
    from logdex.rocketmq.recognise.store_path import StorePath


def show(
    found: StorePath,
    settings: Mapping[str, Any],
    *,
    topic: str | None,
    queue: int | None,
    offset: int | None,
    time_ms: int | None,
    count: int,
    max_bytes: int | None,
    tag: str | None,
    grep: str | None,
    where: Sequence[str] | None,
    decompress: bool,
    rows: RowOptions,
) -> bool:
    """Prints messages of one queue from an offset or a time on. Returns whether all could be
    read."""
    from logdex.rocketmq.read.results import GetMessageStatus
    from logdex.rocketmq.recognise.require_store import require_store
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

    path = require_store(found).path
    if topic is None or queue is None:
        raise UsageError("which queue?", hint=f"give --topic T --queue N; logdex info {shlex.quote(path)} lists them")
    wanted = RowFilter(MESSAGES, grep, where)
    with StoreSnapshot(found, **settings) as snapshot:
        snapshot.require_known(topic, queue)
        printer = MessagePrinter(snapshot.commit_log, rows, decompress=decompress, wanted=wanted)
        if offset is None:
            assert time_ms is not None
            offset = snapshot.get_offset_in_queue_by_time(topic, queue, time_ms)
            note(f"queue offset {offset} for that time")
        result = snapshot.get_message(topic, queue, offset, count, max_bytes, tag)
        is_whole = note_one_file(snapshot)
        log_end = None if is_whole else end_facts(snapshot.valid_end)
        for at, message in zip(result.phy_offsets, result.messages, strict=True):
            printer.print(message, at)
    is_outside = result.status in (GetMessageStatus.OFFSET_TOO_SMALL, GetMessageStatus.OFFSET_OVERFLOW_BADLY)
    if not is_outside:
        note(
            f"{result.status.value}; the queue goes from {result.min_offset} to {result.max_offset} (exclusive), "
            f"continue with --offset {result.next_begin_offset}"
        )
    if result.status is GetMessageStatus.NO_MATCHED_LOGIC_QUEUE:
        hint(f"logdex info {shlex.quote(path)} lists the queues; logdex rebuild derives missing ones")
    if result.problem is not None:
        note(f"the message at queue offset {result.next_begin_offset} cannot be read: {result.problem.message}")
        if result.problem.hint is not None:
            hint(result.problem.hint)
    is_complete = is_whole and result.problem is None and not printer.problems
    print_end(
        rows,
        "get",
        count=printer.printed,
        status=result.status.value,
        offset=offset,
        min_offset=result.min_offset,
        max_offset=result.max_offset,
        next_offset=result.next_begin_offset,
        is_complete=is_complete,
        log_end=log_end,
        problems=[*([] if result.problem is None else [result.problem.message]), *printer.problems],
    )
    if is_outside:
        low, high = result.min_offset, result.max_offset
        raise OffsetOutOfRangeError(offset, path=path, log_start_offset=low, log_end_offset=high)
    return is_complete
