"""`logdex sql` for Kafka paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from logdex.cli.views.kafka.records import scan_facts, tell_scan
from logdex.cli.views.query_result import print_end_of_result, print_result, tell_problems

if TYPE_CHECKING:
    from logdex.kafka.directory.recognise import KafkaPath


def show(
    found: KafkaPath,
    settings: Mapping[str, Any],
    *,
    query: str,
    form: str,
    parquet: str | None,
    control: bool,
    isolation: str | None,
) -> bool:
    """Prints the result of a query. Returns whether the records that it needed could all be
    read."""
    from logdex.kafka.snapshot.log_dir_snapshot import open_kafka
    from logdex.kafka.tables.log_tables import KafkaTables
    from logdex.sql.session import SqlSession

    with open_kafka(found, **settings) as snapshot:
        tables = KafkaTables(found, snapshot, control=control, isolation=isolation)
        with SqlSession(tables) as session:
            rows = print_result(session, query, form, parquet)
        is_good = tell_problems(tables.problems)
        for scan in tables.scans:
            is_good &= scan.is_good or tell_scan(scan, found.path)
        facts = scan_facts(tables.scans)
        facts["problems"] = [*tables.problems, *facts["problems"]]
        print_end_of_result(form, rows, **{**facts, "is_complete": is_good})
        return is_good
