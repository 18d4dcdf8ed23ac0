"""`logdex consume` for RocketMQ stores."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from logdex.cli.output import note
from logdex.cli.rows.printer import print_end
from logdex.cli.rows.row_filter import RowFilter
from logdex.cli.rows.row_options import RowOptions
from logdex.cli.views.rocketmq.messages import MESSAGES, MessagePrinter
from logdex.errors import UsageError
from logdex.io.env import DEFAULT_ENV
from logdex.primitives.shown import counted
from logdex.primitives.text import to_bytes

if TYPE_CHECKING:
    from logdex.rocketmq.recognise.store_path import StorePath

_AT_ONCE = 256
_WAIT_S = 0.5


def show(
    found: StorePath,
    settings: Mapping[str, Any],
    *,
    topic: str | None,
    group: str,
    tag: str | None,
    start: str,
    follow: bool,
    limit: int | None,
    grep: str | None,
    where: Sequence[str] | None,
    decompress: bool,
    rows: RowOptions,
) -> bool:
    """Prints messages and commits them. Returns whether all could be shown."""
    from logdex.rocketmq.consuming.consumer import Consumer
    from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager
    from logdex.rocketmq.consuming.send_back import as_stored
    from logdex.rocketmq.consuming.source import queue_ids, require_queues
    from logdex.rocketmq.recognise.require_store import require_store
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

    path = require_store(found).path
    if topic is None:
        raise UsageError("which topic?", hint=f"give --topic T; logdex info {shlex.quote(path)} lists them")
    left, wanted = limit, RowFilter(MESSAGES, grep, where)
    with StoreSnapshot(found, **settings) as snapshot:
        snapshot.require_known(topic)
        ids = queue_ids(path, to_bytes(topic), DEFAULT_ENV)
        if not ids:
            raise UsageError(f"{path} has no topic {topic}", hint=f"logdex info {shlex.quote(path)} lists the topics")
        require_queues(snapshot, DEFAULT_ENV)
        committed = ConsumerOffsetManager(path).read().file
        if committed.remark is not None:
            note(committed.remark)
        printer = MessagePrinter(snapshot.commit_log, rows, decompress=decompress, wanted=wanted)
        with Consumer(snapshot, group, topic, tags=tag, start="last" if start == "last" else "first") as consumer:
            while left is None or left > 0:
                count = _AT_ONCE if left is None else min(left, _AT_ONCE)
                messages = consumer.poll(count, timeout=_WAIT_S if follow else 0.0)
                if not messages and not follow:
                    break
                snapshot.commit_log.refresh()
                for message in messages:
                    printer.print(as_stored(message, group), message.physical_offset)
                sys.stdout.flush()
                consumer.commit()
                left = None if left is None else left - len(messages)
            consumer.commit()
            shares, count = sum(each == consumer.topic for each, _ in consumer.assignment), len(ids)
    others = "; other members of the group have the others" if shares < count else ""
    note(f"group {group} goes on behind this; it read {counted(shares, 'queue')} of {topic}{others}")
    problems = [*([] if committed.remark is None else [committed.remark]), *printer.problems]
    facts = {"group": group, "queues_read": shares, "queues": count, "is_complete": not printer.problems}
    print_end(rows, "consume", count=printer.printed, **facts, problems=problems)
    return not printer.problems
