"""The entries of one file beside a .log: its indexes, a snapshot of producers, a checkpoint.

Source: ``docs/formats``: the pages of the files.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.directory.recognise import KafkaPath, KafkaPathKind
from logdex.kafka.files.checkpoints import read_offset_checkpoint
from logdex.kafka.files.file_names import LEADER_EPOCH_CHECKPOINT
from logdex.kafka.key_index.reader import KeyIndex
from logdex.kafka.segment.offset_index import OffsetIndex
from logdex.kafka.segment.time_index import TimeIndex
from logdex.kafka.segment.transaction_index import TransactionIndex
from logdex.kafka.state.leader_epochs import LeaderEpochs
from logdex.kafka.state.producer_snapshot import load_producer_snapshot

_SPARSE: Mapping[KafkaPathKind, type[OffsetIndex | TimeIndex]] = {
    KafkaPathKind.INDEX: OffsetIndex,
    KafkaPathKind.TIME_INDEX: TimeIndex,
}


def file_entries(file: KafkaPath, *, env: Env = DEFAULT_ENV) -> Iterator[dict[str, Any]]:
    """Yields the entries of a file that `has_entries`. Raises `CorruptError` for damage that shows
    by itself."""
    if file.kind in _SPARSE:
        with _SPARSE[file.kind](file.path, file.offset, env=env) as index:
            for slot in range(index.entries):
                yield index.entry(slot)._asdict()
    elif file.kind is KafkaPathKind.TXN_INDEX:
        with TransactionIndex(file.path, file.offset, env=env) as transactions:
            for each in transactions.all_aborted_txns():
                yield each._asdict()
    elif file.kind is KafkaPathKind.KEY_INDEX:
        with KeyIndex.open(file.path, env=env) as keys:
            for found in keys.entries():
                yield {"hash_bits": f"{found.hash_bits:08x}", "offset": found.offset}
    elif file.kind is KafkaPathKind.CHECKPOINT:
        yield from _lines(file, env)
    else:
        for state in load_producer_snapshot(file.path, env=env):
            last = state.batches[-1] if state.batches else None
            yield {
                "producer_id": state.producer_id,
                "producer_epoch": state.producer_epoch,
                "last_sequence": -1 if last is None else last.last_sequence,
                "last_offset": -1 if last is None else last.last_offset,
                "last_timestamp_ms": state.last_timestamp_ms,
                "coordinator_epoch": state.coordinator_epoch,
                "current_txn_first_offset": state.current_txn_first_offset,
            }


def _lines(file: KafkaPath, env: Env) -> Iterator[dict[str, Any]]:
    if posixpath.basename(file.path) == LEADER_EPOCH_CHECKPOINT:
        for epoch in LeaderEpochs.load(file.path, env=env).entries:
            yield epoch._asdict()
        return
    for (topic, partition), offset in read_offset_checkpoint(file.path, env=env).items():
        yield {"topic": topic, "partition": partition, "offset": offset}
