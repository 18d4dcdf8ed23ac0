"""`logdex sql` for RocketMQ stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from logdex.cli.views.query_result import print_end_of_result, print_result, tell_problems
from logdex.cli.views.rocketmq.cat import end_facts, tell_end

if TYPE_CHECKING:
    from logdex.rocketmq.recognise.store_path import StorePath


def show(
    found: StorePath,
    settings: Mapping[str, Any],
    *,
    query: str,
    form: str,
    parquet: str | None,
    time_slack_ms: int | None,
    decompress: bool,
) -> bool:
    """Prints the result of a query. Returns whether the log was read to a clean end, as far as the
    query needed it."""
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
    from logdex.rocketmq.tables.store_tables import StoreTables
    from logdex.sql.session import SqlSession

    with StoreSnapshot(found, **settings) as snapshot:
        tables = StoreTables(snapshot, time_slack_ms=time_slack_ms, decompress=decompress)
        with SqlSession(tables) as session:
            rows = print_result(session, query, form, parquet)
        is_good = tell_problems(tables.problems)
        ends = {scan.end.offset: scan.end for scan in tables.scans if scan.end is not None}.values()
        for end in ends:
            is_good &= end.is_clean or tell_end(end, found.path)
        log_ends = [end_facts(end) for end in ends]
        print_end_of_result(form, rows, is_complete=is_good, problems=tables.problems, log_ends=log_ends)
        return is_good
