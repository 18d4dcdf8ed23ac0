"""The readers of Kafka's single files, let loose on a harmed one: a typed error, located in it, or
an answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from logdex.errors import LogdexError
from logdex.kafka.files.checkpoints import read_offset_checkpoint
from logdex.kafka.files.file_names import CLEAN_SHUTDOWN, LEADER_EPOCH_CHECKPOINT, META_PROPERTIES, PARTITION_METADATA
from logdex.kafka.files.metadata_files import CleanShutdown, MetaProperties, PartitionMetadata
from logdex.kafka.key_index import KeyIndex
from logdex.kafka.scan.resume import LogResume
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kafka.segment.offset_index import OffsetIndex
from logdex.kafka.segment.segment_recovery import derive_segment
from logdex.kafka.segment.time_index import TimeIndex
from logdex.kafka.segment.transaction_index import TransactionIndex
from logdex.kafka.state.leader_epochs import LeaderEpochs
from logdex.kafka.state.producer_snapshot import load_producer_snapshot
from tests.cli.kafka.tiny_logs import INTERVAL_BYTES, START_MS

_OFFSETS = np.array([-1, 0, 13, 122, (1 << 63) - 1])


def _log(path: str) -> None:
    data = np.fromfile(path, np.uint8)
    scanner, resume, at = BatchScanner(check_crc=True), LogResume(data, path), 0
    while at >= 0:
        list(scanner.scan_bytes(data, at, path=path))
        at = resume.behind(scanner.end).position
    derive_segment(path, int(Path(path).stem), INTERVAL_BYTES)


def _index(path: str) -> None:
    with OffsetIndex(path, int(Path(path).stem)) as index:
        index.lookup_many(_OFFSETS)
        for slot in range(index.entries):
            index.lookup(index.entry(slot).offset)
        index.sanity_check()


def _time_index(path: str) -> None:
    with TimeIndex(path, int(Path(path).stem)) as index:
        index.lookup_many(START_MS + _OFFSETS // 2)
        for slot in range(index.entries):
            index.lookup(index.entry(slot).timestamp_ms)
        index.sanity_check()


def _transaction_index(path: str) -> None:
    with TransactionIndex(path, int(Path(path).stem)) as index:
        index.collect_aborted_txns(0, 1 << 40)
        index.all_aborted_txns()
        index.sanity_check()


def _key_index(path: str) -> None:
    with KeyIndex.open(path) as index:
        index.covers(path.replace(".keyindex", ".log"))
        index.may_contain(b"hot")
        index.candidates(b"hot")
        index.lookup_many([b"hot", b"k-2", b"", b"none"])
        index.verify()


_TEXT: dict[str, Callable[[str], object]] = {
    CLEAN_SHUTDOWN: CleanShutdown.read,
    LEADER_EPOCH_CHECKPOINT: LeaderEpochs.load,
    META_PROPERTIES: MetaProperties.read,
    PARTITION_METADATA: PartitionMetadata.read,
}
_READERS: dict[str, Callable[[str], object]] = {
    ".log": _log,
    "legacy .log": _log,
    ".index": _index,
    ".timeindex": _time_index,
    ".txnindex": _transaction_index,
    ".snapshot": load_producer_snapshot,
    ".keyindex": _key_index,
}


def read_file(path: Path, kind: str) -> LogdexError | None:
    """Reads a file of a kind by its own readers; the typed error that says where in it, if one
    comes."""
    reader = _TEXT.get(path.name, read_offset_checkpoint) if kind == "text" else _READERS[kind]
    found = None
    try:
        reader(str(path))
    except LogdexError as error:
        found = error
    assert found is None or str(path) in str(found), found
    return found
