"""`logdex rebuild` for RocketMQ stores: prints the report."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from logdex.cli.output import hint, human_size, note, note_settings
from logdex.primitives.shown import counted
from logdex.rocketmq.commit_log.log_end import EndKind
from logdex.rocketmq.consume_queue.lives import WHY_EARLIER

if TYPE_CHECKING:
    from logdex.rocketmq.rebuild.report import RebuildReport
    from logdex.rocketmq.recognise.store_path import StorePath


def note_in_place(output: str) -> None:
    """Prints what a rebuild in place does."""
    note(f"writes consumequeue/ and index/ in {output}; what is there is kept under a dated name")


def source(report: RebuildReport) -> str:
    """Returns what was read, as text."""
    return f"{counted(report.messages, 'message')}, {human_size(report.bytes)} of CommitLog"


def print_notes(found: StorePath, report: RebuildReport) -> None:
    """Prints the assumptions, the notes and the losses."""
    if found.is_one_file:
        note(f"{found.path} is one CommitLog file: queues and index cover its messages only, not the whole store")
    note_settings([], report.assumed)
    for line in [*report.notes, *report.losses]:
        note(line)
    command = f"logdex recover {shlex.quote(found.path)} --output DIR"
    if not EndKind(report.end).is_clean:
        hint(f"{command} recovers whole messages behind that end, too")
    elif report.unreadable_ranges:
        hint(f"{command} writes a store without what cannot be read, which a broker serves")


def rows(report: RebuildReport, output: str) -> list[tuple[str, str]]:
    """Returns the table rows for what was written to `output`."""
    found = [
        ("ConsumeQueues", f"{counted(report.queues, 'queue')}, {counted(report.queue_entries, 'entry', 'entries')}"),
        ("IndexFiles", f"{counted(report.index_files, 'file')}, {counted(report.index_entries, 'entry', 'entries')}"),
        *([("index names", f"in {report.time_zone}")] if report.index_files else []),
        ("files", f"{counted(report.files, 'file')} in {output}"),
        ("log end", f"offset {report.end_offset}: {report.end}"),
    ]
    if report.pre_blank_gaps:
        found.append(("gaps", f"{counted(report.pre_blank_gaps, 'gap')} in queue offsets, filled with blank entries"))
    if report.checkpoint:
        text = "written too, so that the broker's next start after the crash keeps the IndexFiles"
        found.append(("checkpoint", f"{text}: it belongs into the store with index/ and consumequeue/"))
    if report.expired_queues:
        text = f"{counted(report.expired_queues, 'queue')} without messages in the log, taken over as they were"
        found.append(("expired", text))
    if report.stale_queues:
        text = f"{counted(report.stale_queues, 'queue')} left out, their entries name no message of the log"
        found.append(("stale", text))
    if report.earlier_life_entries:
        left = counted(report.earlier_life_entries, "entry", "entries")
        found.append(("earlier lives", f"{left} left out, {WHY_EARLIER}"))
    for topic, entries in report.deleted_topics.items():
        left = counted(entries, "entry", "entries")
        found.append(("deleted topic", f"{topic}: {left} left out, topics.json has no such topic (--deleted-topics)"))
    return found
