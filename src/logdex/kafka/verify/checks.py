"""The checks of a Kafka log by name, and how to repair what they find."""

from __future__ import annotations

import shlex
from collections.abc import Collection

from logdex.jobs.findings import FindingCollector
from logdex.jobs.journal import UNFINISHED_CHECK

CHECKS = {
    "batch-attributes": "a batch's attributes and codec are known",
    "batch-count": "a batch's count of records fits its offsets",
    "batch-crc": "a batch's checksum is right",
    "batch-header": "where a batch must begin, one begins",
    "batch-leader-epoch": "a batch bears the leader epoch of its neighbours",
    "batch-offset": "offsets rise from batch to batch",
    "batch-offset-delta": "a batch's last offset is not below its first",
    "batch-records": "a batch's records can be decompressed and decoded, are as many as stated, and their offsets rise",
    "batch-timestamp": "a batch's largest timestamp is not below its first",
    "checkpoint-malformed": "an offset checkpoint can be read",
    "checkpoint-offset": "no offset of a checkpoint lies behind its log's end",
    "file-name": "a segment's file is named by its offset, in 20 digits, which its batches do not contradict",
    "key-index": "a key index is whole and tells of its log as it is",
    "leader-epoch": "the leader epoch checkpoint tells of the epoch of every batch",
    "leader-epoch-malformed": "the leader epoch checkpoint can be read",
    "log-missing": "an index has a log",
    "meta-properties": "meta.properties can be read",
    "offset-index-beyond-end": "no .index entry lies behind the log's end",
    "offset-index-missing": "a segment has an .index",
    "offset-index-offset": "an .index entry's offset is the last one of the batch that it names, or of the append",
    "offset-index-order": "the entries of an .index rise",
    "offset-index-position": "an .index entry names the start of a batch",
    "offset-index-size": "an .index holds whole entries",
    "offset-overflow": "a segment's offsets fit its indexes",
    "partition-metadata": "partition.metadata can be read",
    "partition-twice": "a partition has one directory",
    "producer-epoch": "a producer's epochs do not fall",
    "producer-sequence": "a producer's sequence numbers have no gap and no repetition",
    "producer-snapshot": "a producer snapshot can be read and its checksum is right",
    "producer-snapshot-entry": "a producer snapshot says of a producer what the log says",
    "producer-state": "batches of a producer can stand where they stand",
    "segment-base-offset": "no batch of a segment lies before its base offset",
    "segment-overlap": "a segment ends before the next one begins",
    "stray-bytes": "nothing lies between two batches",
    "time-index-beyond-end": "no .timeindex entry lies behind the log's end",
    "time-index-end": "the .timeindex of a finished segment ends with its largest timestamp",
    "time-index-missing": "a segment has a .timeindex",
    "time-index-offset": "a .timeindex entry's offset is the last one of a batch, or of the record that has its time",
    "time-index-order": "the entries of a .timeindex rise, each the largest timestamp so far",
    "time-index-size": "a .timeindex holds whole entries",
    "time-index-timestamp": "a .timeindex entry's timestamp is the largest of the batch that it names",
    "torn-tail": "the log does not end inside a batch",
    "txn-index-entry": "a .txnindex entry tells of a transaction that was aborted",
    "txn-index-missing": "every aborted transaction has its .txnindex entry",
    "txn-index-size": "a .txnindex holds whole entries",
    UNFINISHED_CHECK: "no command of Logdex was killed while it published here",
    "unreadable": "the file can be read",
    "zero-hole": "no zeros lie between two batches",
    "zero-tail": "the log does not end in zeros",
}
"""Maps the name of each check to the condition that holds in a sound log."""

NOTES = frozenset(
    (
        "checkpoint-unknown-partition",
        "foreign-file",
        "index-differs",
        "index-not-trimmed",
        "key-index-behind",
        "key-index-stale",
        "key-index-version",
        "leader-epochs-back",
        "leader-epochs-behind",
        "leader-epochs-later",
        "leftover",
        "log-preallocated",
        "lost-and-found",
        "no-leader-epochs",
        "no-meta-properties",
        "offset-gap",
        "older-index-entries",
        "partition-changing",
        "partition-delete",
        "partition-future",
        "partition-stray",
        "producer-sequence-gaps",
        "producer-snapshot-differs",
        "producer-snapshot-expired",
        "producer-snapshot-offset",
        "txn-index-differs",
        "txn-open",
        "unclean-end",
    )
)
"""The names of what is reported as information."""


class Collector(FindingCollector):
    """Collects the findings about a log, and holds the commands that repair them. Not
    thread-safe."""

    def __init__(self, root: str, max_findings: int, checks: Collection[str] | None = None, flags: str = "") -> None:
        super().__init__(CHECKS, NOTES, root, max_findings, checks, flags)
        self.recover = f"logdex recover {shlex.quote(root)} --output DIR{flags}"
        """The command that recovers every whole batch."""


REMOVE = "remove the file: a broker then derives it from the log"
REMOVE_LINE = (
    "restore the log's last segment first, if it was cut or lost; if not, remove this line, and lower the count in "
    "line 2 by one: a broker then derives the offset from the log"
)
REMOVE_STARTS = "remove the file: a broker then lets each log begin with its first segment, deleted records included"
MOVE_AWAY = "move the file out of the directory"
RESTORE = "restore the file from a replica or a backup"
RESTORE_META = (
    "remove the file: kafka-storage format writes it again, with the cluster.id and node.id of the broker; then put "
    "the directory.id into it that logdex cat --decode shows in the broker's RegisterBroker record in "
    "__cluster_metadata-0: with another one the broker does not serve these partitions"
)
RESTORE_BATCH = "restore the batch from a replica: its checksum is right, so it was written so"
RESTORE_EPOCH = "restore the batch from a replica: no checksum covers its leader epoch"
RESTORE_LOG = "restore the .log from a replica or a backup; if there is none, remove this file"
