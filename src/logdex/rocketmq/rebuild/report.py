"""The report of a rebuild of a store."""

from __future__ import annotations

import builtins
from dataclasses import dataclass

from logdex.jobs import reports
from logdex.rocketmq.consume_queue.writer import QueueReport
from logdex.rocketmq.scan.scanner import LogEnd


@dataclass(slots=True)
class RebuildReport(reports.RebuildReport):
    """What a rebuild of a store did. `kept` maps directories."""

    queues: int = 0
    queue_entries: int = 0
    index_files: int = 0
    index_entries: int = 0
    pre_blank_gaps: int = 0
    end: str = ""
    end_offset: int = 0

    def note_end(self, end: LogEnd) -> None:
        """Records where the log ends. An end that is not clean is a loss."""
        self.end, self.end_offset = end.kind.value, end.offset
        if not end.is_clean:
            where = end.reason if end.error is not None else f"{end.path}: byte {end.position}: {end.reason}"
            self.losses.append(f"the log ends at offset {end.offset}: {where}")

    def note_queue(self, folder: str, queue: QueueReport) -> None:
        """Adds the counts of one queue."""
        self.queues += 1
        self.queue_entries += queue.entries
        self.pre_blank_gaps += queue.gaps
        if queue.repeated:
            self.losses.append(f"{folder}: {queue.repeated} entries left out, their queue offset was there already")
        if queue.implausible:
            self.losses.append(f"{folder}: {queue.implausible} entries left out, their queue offset cannot be")

    def note_skipped(self, topic: builtins.bytes, queue_id: int, entries: int) -> None:
        """Records a queue whose topic cannot be the name of a folder."""
        self.losses.append(
            f"topic {topic!r} queue {queue_id}: {entries} entries left out, no folder can have that name"
        )
