"""`logdex filter` for Kafka paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from logdex.cli.rows.row_filter import RowFilter
from logdex.cli.views.filter_report import print_report
from logdex.cli.views.kafka.records import RECORDS
from logdex.errors import UsageError
from logdex.io.env import DEFAULT_ENV, Env

if TYPE_CHECKING:
    from logdex.kafka.batch.record import Record
    from logdex.kafka.directory.recognise import KafkaPath
    from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot


def show(
    found: KafkaPath,
    settings: Mapping[str, Any],
    *,
    topic: str | None,
    partition: int | None,
    begin_ms: int | None,
    end_ms: int | None,
    offset: int | None,
    limit: int | None,
    grep: str | None,
    where: Sequence[str] | None,
    isolation: str | None,
    new_offsets: bool,
    output: str,
    flags: str,
    sync: bool,
    check_space: bool,
    as_json: bool,
) -> bool:
    """Writes the records that pass the filter. Returns whether nothing was lost."""
    from logdex.convert.filter.logs import filter_logs
    from logdex.kafka.read.log_read import READ_COMMITTED
    from logdex.kafka.read.record_scan import KafkaScan
    from logdex.kafka.snapshot.log_dir_snapshot import open_kafka

    if found.is_beside_a_log:
        raise UsageError(f"{found.path} is {found.description}, without records", hint="give the log directory")
    wanted = RowFilter(RECORDS, grep, where)
    env = Env(check_space=check_space)

    def passes(one: PartitionSnapshot, record: Record) -> bool:
        return wanted.passes((one, record))

    with open_kafka(found, **settings) as snapshot:
        whole = snapshot.scan(
            topic=topic,
            partition=partition,
            begin_ms=begin_ms,
            end_ms=end_ms,
            offset=offset,
            isolation=isolation or READ_COMMITTED,
        )
        assert whole is not None
        env.require_free(output, sum(each.size_bytes for each in whole.partitions))
        narrowed = whole.narrowed(wanted.conditions()) if wanted else whole
        report = filter_logs(
            KafkaScan([], whole.wanted) if narrowed is None else narrowed,
            output,
            passes if wanted else None,
            source=DEFAULT_ENV.real_path(found.path),
            flags=flags,
            limit=limit,
            new_offsets=new_offsets,
            sync=sync,
            env=env,
        )
    return print_report(report, output, "partition", as_json=as_json)
