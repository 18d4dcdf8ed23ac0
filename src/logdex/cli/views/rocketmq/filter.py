"""`logdex filter` for RocketMQ stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from logdex.cli.rows.row_filter import RowFilter
from logdex.cli.rows.row_options import RowOptions
from logdex.cli.views.filter_report import print_report
from logdex.cli.views.rocketmq.messages import MESSAGES, MessagePrinter
from logdex.errors import UsageError
from logdex.io.env import DEFAULT_ENV, Env

if TYPE_CHECKING:
    from logdex.rocketmq.recognise.store_path import StorePath


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
    grep: str | None,
    where: Sequence[str] | None,
    output: str,
    flags: str,
    sync: bool,
    check_space: bool,
    as_json: bool,
) -> bool:
    """Writes the messages that pass the filter. Returns whether nothing was lost."""
    from logdex.convert.filter.store import filter_store
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

    if not found.holds_messages:
        raise UsageError(f"{found.path} is {found.description}, without messages", hint="give the store's root")
    wanted = RowFilter(MESSAGES, grep, where)
    env = Env(check_space=check_space)
    with StoreSnapshot(found, **settings) as snapshot:
        printer = MessagePrinter(snapshot.commit_log, RowOptions(), wanted=wanted)
        whole = snapshot.scan(topic, queue, begin_ms, end_ms, start_offset=physical_offset, queue_offset=offset)
        env.require_free(output, snapshot.commit_log.size_bytes)
        report = filter_store(
            snapshot,
            whole.narrowed(wanted.conditions()) if wanted else whole,
            output,
            printer.wants if wanted else None,
            source=DEFAULT_ENV.real_path(found.path),
            flags=flags,
            limit=limit,
            system_topics=topic is not None,
            sync=sync,
            env=env,
        )
    return print_report(report, output, "queue", as_json=as_json) and not printer.problems
