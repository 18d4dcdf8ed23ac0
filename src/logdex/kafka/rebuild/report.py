"""The report of a rebuild of Kafka's files."""

from __future__ import annotations

from dataclasses import dataclass, field

from logdex.jobs import reports
from logdex.kafka.rebuild.segment import SegmentDone
from logdex.kafka.rebuild.state import StateDone, with_known_state
from logdex.kafka.scan.scanner import EndKind
from logdex.primitives.shown import counted


@dataclass(slots=True)
class KafkaRebuildReport(reports.RebuildReport):
    """The result of a rebuild of Kafka's files.

    `messages` counts records, control records included; a compressed batch of magic 0 or 1 counts
    as one. `notes` are remarks that are not losses. `inferred` lists settings that were inferred
    from the files.
    """

    partitions: int = 0
    segments: int = 0
    batches: int = 0
    offset_index_entries: int = 0
    time_index_entries: int = 0
    key_index_entries: int = 0
    aborted_transactions: int = 0
    snapshots: int = 0
    notes: list[str] = field(default_factory=list)
    inferred: list[str] = field(default_factory=list)

    def note_segment(self, done: SegmentDone, *, is_last: bool) -> None:
        """Adds a segment's counts. Zeros after the last batch of a partition's last segment are no
        loss."""
        self.segments += 1
        self.messages += done.messages
        self.batches += done.batches
        self.bytes += done.size_bytes
        self.files += len(done.names)
        self.offset_index_entries += done.offset_entries
        self.time_index_entries += done.time_entries
        self.key_index_entries += done.key_entries
        self.losses += done.losses
        if done.is_gone:
            self.losses.append(f"{done.source.path}: removed or replaced by the broker meanwhile, and not read")
        if not done.is_whole:
            left = done.source.size_bytes - done.size_bytes
            is_loss = not (is_last and done.end is EndKind.ZEROS)
            (self.losses if is_loss else self.notes).append(
                f"{done.error}; {left} bytes from byte {done.size_bytes} on are in no index"
            )

    def note_partition(self, segments: list[SegmentDone]) -> None:
        """Adds a partition's segments, and reports those after a damaged one."""
        self.partitions += 1
        for number, done in enumerate(segments):
            self.note_segment(done, is_last=number + 1 == len(segments))
        known = with_known_state(segments)
        behind = len(segments) - len(known)
        if behind:
            first = segments[-behind].source.path
            told, them, have = "this segment comes", "it", "it has"
            if behind > 1:
                told, them, have = f"this and {counted(behind - 1, 'more segment')} come", "them", "they have"
            why = f"a damaged one, and a broker's recovery would remove {them}"
            if known[-1].has_unreadable:
                why = "one that cannot be read in part"
            self.losses.append(
                f"{first}: {told} after {why}: {have} indexes, but no .snapshot, .txnindex or leader epochs"
            )

    def note_state(self, done: StateDone) -> None:
        """Adds the counts of a partition's state files."""
        self.files += len(done.names)
        self.snapshots += done.snapshots
        self.aborted_transactions += done.aborted
        self.losses += done.losses
