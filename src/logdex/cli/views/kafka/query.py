"""`logdex query` for Kafka paths: all records with a key, through key indexes or by reading the
log."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from logdex.cli.output import hint, note
from logdex.cli.rows.printer import print_end
from logdex.cli.rows.row_options import RowOptions
from logdex.cli.views.kafka.records import record_printer
from logdex.errors import LogdexError, UsageError

if TYPE_CHECKING:
    from logdex.kafka.batch.record import Record
    from logdex.kafka.directory.recognise import KafkaPath
    from logdex.kafka.snapshot.log_dir_snapshot import KafkaSnapshot
    from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot


def show(
    found: KafkaPath,
    settings: Mapping[str, Any],
    *,
    topic: str | None,
    partition: int | None,
    key: str | None,
    begin_ms: int | None,
    end_ms: int | None,
    max_num: int | None,
    key_index: str | None,
    grep: str | None,
    where: Sequence[str] | None,
    rows: RowOptions,
) -> bool:
    """Prints the records with a key, newest first. Returns whether the answer is complete."""
    from logdex.kafka.snapshot.log_dir_snapshot import open_kafka

    if key is None:
        raise UsageError("which records?", hint="give --key K")
    printer, problems = record_printer(rows, grep, where, max_num), list[LogdexError]()
    with open_kafka(found, **settings) as snapshot:
        most = None if printer.scan_limit is None else printer.scan_limit + 1  # one more tells whether there are more
        answers = _ask(snapshot, topic, partition, (key, begin_ms, end_ms, most), key_index, problems)
        has_more = False
        for row in answers:
            has_more = printer.is_done and printer.wanted.passes(row)
            if has_more:
                note(f"there are more: these are the newest {printer.printed}; leave out --max, or give a higher one")
                break
            printer.print(row)
    if not printer.printed:
        note("no record found")
    for problem in problems:
        note(problem.message)
    if problems:
        hint(f"the answer may lack records of bad batches; logdex verify {shlex.quote(found.path)} lists all damage")
    messages = [problem.message for problem in problems]
    facts = {"has_more": has_more, "is_complete": not problems, "problems": messages}
    print_end(rows, "query", count=printer.printed, **facts)
    return not problems


def _ask(
    snapshot: KafkaSnapshot,
    topic: str | None,
    partition: int | None,
    question: tuple[str, int | None, int | None, int | None],
    key_index: str | None,
    problems: list[LogdexError],
) -> list[tuple[PartitionSnapshot, Record]]:
    from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot

    key, *rest = question
    if isinstance(snapshot, PartitionSnapshot):
        snapshot.scan(topic=topic, partition=partition)  # refuses other topics
        return [(snapshot, record) for record in snapshot.query(key, *rest, key_index_dir=key_index, problems=problems)]
    if topic is None:
        raise UsageError("which topic?", hint=f"give --topic; logdex info {shlex.quote(snapshot.path)} lists them")
    return snapshot.query_items(topic, key, *rest, partition=partition, key_index_dir=key_index, problems=problems)
