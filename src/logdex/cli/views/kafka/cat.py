"""`logdex cat` for Kafka paths."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from logdex.cli.progress_bars import progress_bar
from logdex.cli.rows.entries import print_entries
from logdex.cli.rows.in_bulk import is_bulk, print_batches
from logdex.cli.rows.printer import RowPrinter, print_end
from logdex.cli.rows.row_options import RowOptions
from logdex.cli.views.kafka.records import RECORDS, RecordRow, record_printer, scan_facts, tell_scan
from logdex.jobs.tasks import threads_of

if TYPE_CHECKING:
    from logdex.kafka.batch.record import Record
    from logdex.kafka.directory.recognise import KafkaPath
    from logdex.kafka.read.record_scan import KafkaScan
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
    tail: int | None,
    follow: bool,
    grep: str | None,
    where: Sequence[str] | None,
    control: bool,
    isolation: str | None,
    jobs: int | None,
    rows: RowOptions,
) -> bool:
    """Prints the records that pass the filter, and continues after bad batches. Returns whether
    there were none."""
    from logdex.kafka.snapshot.log_dir_snapshot import open_kafka

    if found.has_entries:
        from logdex.kafka.snapshot.file_entries import file_entries

        others: dict[str, object] = {
            "--topic": topic,
            "--partition": partition,
            "--from": begin_ms,
            "--to": end_ms,
            "--offset": offset,
        }
        others |= {"--tail": tail, "--follow": follow, "--grep": grep, "--where": where, "--isolation-level": isolation}
        print_entries(file_entries(found), rows, limit, others, found.description)
        return True
    printer = record_printer(rows, grep, where, limit)
    with open_kafka(found, **settings) as snapshot:
        scan: KafkaScan[PartitionSnapshot] | None = snapshot.scan(
            topic=topic,
            partition=partition,
            begin_ms=begin_ms,
            end_ms=end_ms,
            offset=offset,
            limit=printer.scan_limit,
            control=control,
            isolation=isolation,
        )
        assert scan is not None
        partitions, wanted = scan.partitions, scan.wanted
        if printer.wanted:
            scan = scan.narrowed(printer.wanted.conditions())
        scans: list[KafkaScan[PartitionSnapshot]] = []
        starts: dict[str, int] | None = None
        if tail is not None and scan is not None:
            scans, starts = _print_tails(scan, tail, printer)
        elif scan is not None and not follow:
            _print_scan(scan, printer, jobs)
            scans = [scan]
        told = [tell_scan(each, found.path) for each in scans]
        if follow:
            from logdex.cli.views.kafka.cat_follow import follow as print_as_they_come

            print_as_they_come(partitions, wanted, printer, starts)
        if not (printer.is_done and all(told)):
            print_end(rows, "cat", count=printer.printed, **scan_facts(scans))
        return all(told)


def _print_scan(scan: KafkaScan[PartitionSnapshot], printer: RowPrinter[RecordRow], jobs: int | None) -> None:
    if sys.stdout.isatty():  # a progress bar would be in the way between the lines
        _print(scan, printer, jobs)
        return
    with progress_bar("cat", sum(each.size_bytes for each in scan.partitions)) as scan.progress:
        _print(scan, printer, jobs)


def _print(scan: KafkaScan[PartitionSnapshot], printer: RowPrinter[RecordRow], jobs: int | None) -> None:
    size_bytes = sum(each.size_bytes for each in scan.partitions)
    if not printer.wanted and is_bulk(printer.options, printer.limit, size_bytes):
        printer.printed += print_batches(scan, RECORDS, printer.options, threads_of(jobs, size_bytes))
        return
    with closing(scan.items()) as items:  # type: ignore[type-var]  # a generator
        _print_rows(items, printer)


def _print_rows(items: Iterable[RecordRow], printer: RowPrinter[RecordRow]) -> None:
    for row in items:
        if not printer.print(row):
            return


def _print_tails(
    scan: KafkaScan[PartitionSnapshot], count: int, printer: RowPrinter[RecordRow]
) -> tuple[list[KafkaScan[PartitionSnapshot]], dict[str, int]]:
    """Prints the last records of each partition. Returns what was found on the way, and the offsets
    behind them by the partition's path."""
    from logdex.kafka.read.log_read import READ_COMMITTED
    from logdex.kafka.read.tail import read_tail

    scans, starts = [], dict[str, int]()
    for one in scan.partitions:
        end = one.last_stable_offset if scan.wanted.isolation == READ_COMMITTED else one.log_end_offset

        def passes(record: Record, one: PartitionSnapshot = one) -> bool:
            return printer.wanted.passes((one, record))

        records, told = read_tail(one, end, scan.wanted, count, passes)
        _print_rows(((one, record) for record in records), printer)
        scans.append(told)
        starts[one.path] = max([end, *(record.offset + 1 for record in records[-1:])])
    return scans, starts
