"""`logdex sql` for RocketMQ stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from logdex.cli.views.query_result import print_result, tell_problems
from logdex.cli.views.rocketmq.cat import tell_end

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
) -> bool:
    """Prints the result of a query. Returns whether the log was read to a clean end, as far as the
    query needed it."""
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
    from logdex.rocketmq.tables.store_tables import StoreTables
    from logdex.sql.session import SqlSession

    snapshot = StoreSnapshot(found, **settings)
    with snapshot, SqlSession(tables := StoreTables(snapshot, time_slack_ms=time_slack_ms)) as session:
        print_result(session, query, form, parquet)
        is_good = tell_problems(tables.problems)
        for end in {scan.end.offset: scan.end for scan in tables.scans if scan.end is not None}.values():
            is_good &= end.is_clean or tell_end(end, found.path)
        return is_good
