"""Producer snapshots, transaction indexes and leader epochs: are the bytes those that the real
engine writes?"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.kafka.files.file_names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_file_name,
)
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kafka.segment.transaction_index import TransactionIndex, derive_transaction_index
from logdex.kafka.state.leader_epochs import LeaderEpochs
from logdex.kafka.state.producer_snapshot import (
    derive_producer_snapshot,
    load_producer_snapshot,
    read_producer_snapshot,
)
from logdex.kafka.state.producer_state import ProducerState, ProducerStates, aborted_of
from tests.golden import kafka as golden_kafka

GoldenKafka = Callable[..., Path]


def _derive(partition: Path, recovered: list[golden_kafka.Line]) -> dict[str, bytes]:
    """The files of state that follow from the segments which the real engine kept."""
    states, epochs, files = ProducerStates(), LeaderEpochs(), {}
    for number, line in enumerate(recovered):
        aborted = []
        for window in BatchScanner().scan_file(str(partition / offset_file_name(line["segment"], LOG_SUFFIX))):
            aborted += aborted_of(states.add(window.columns))
            epochs.add(window.columns)
        if aborted:
            files[offset_file_name(line["segment"], TXN_INDEX_SUFFIX)] = derive_transaction_index(aborted)
        is_last = number + 1 == len(recovered)
        end = line["nextOffset"] if is_last else recovered[number + 1]["segment"]
        if end > 0:  # a log that nothing was written to has no snapshot
            files[offset_file_name(end, SNAPSHOT_SUFFIX)] = derive_producer_snapshot(states)
    return files | {LEADER_EPOCH_CHECKPOINT: epochs.to_bytes()}


@pytest.mark.parametrize("name", golden_kafka.NAMES)
def test_derived_files_are_those_of_the_real_recovery(name: str, golden_log: GoldenKafka) -> None:
    store = golden_log(name)
    segments, expected = defaultdict[str, list[golden_kafka.Line]](list), defaultdict[str, dict[str, str]](dict)
    for line in golden_kafka.lines(name, "recovered"):
        if line["kind"] == "recovered":
            segments[line["partition"]].append(line)
        elif line["kind"] == "file" and line["name"].endswith(
            (TXN_INDEX_SUFFIX, SNAPSHOT_SUFFIX, LEADER_EPOCH_CHECKPOINT)
        ):
            expected[line["partition"]][line["name"]] = line["sha256"]
    assert segments
    for partition, recovered in segments.items():
        files = _derive(store / partition, recovered)
        found = {file: hashlib.sha256(data).hexdigest() for file, data in files.items()}
        assert found == expected[partition], partition


def _as_line(state: ProducerState) -> golden_kafka.Line:
    line = {
        "producerId": state.producer_id,
        "epoch": state.producer_epoch,
        "coordinatorEpoch": state.coordinator_epoch,
        "lastTimestamp": state.last_timestamp_ms,
        "firstDataOffset": state.batches[0].first_offset if state.batches else -1,
        "lastDataOffset": state.last_offset,
        "currentTxnFirstOffset": state.current_txn_first_offset,
    }
    return line | ({"lastSequence": state.last_sequence} if state.batches else {})


@pytest.mark.parametrize("name", golden_kafka.NAMES)
def test_snapshots_read_as_the_real_engine_reads_them_and_are_written_back(name: str, golden_log: GoldenKafka) -> None:
    store = golden_log(name)
    for line in golden_kafka.lines(name, "raw", "snapshot"):
        path = store / line["partition"] / line["name"]
        states = load_producer_snapshot(str(path))
        assert [_as_line(state) for state in states] == line["producers"]
        again = ProducerStates()
        again.load(states, 0)
        assert derive_producer_snapshot(again) == path.read_bytes()
        assert len(read_producer_snapshot(path.read_bytes())) == len(line["producers"])


@pytest.mark.parametrize("name", golden_kafka.NAMES)
def test_transaction_indexes_and_epochs_read_as_they_lie(name: str, golden_log: GoldenKafka) -> None:
    store = golden_log(name)
    for line in golden_kafka.lines(name, "raw", "txnindex"):
        path = store / line["partition"] / offset_file_name(line["segment"], TXN_INDEX_SUFFIX)
        index = TransactionIndex(str(path), line["segment"])
        index.sanity_check()
        assert [list(entry) for entry in index.all_aborted_txns()] == line["entries"]
    for line in golden_kafka.lines(name, "raw", "epochs"):
        epochs = LeaderEpochs.load(str(store / line["partition"] / LEADER_EPOCH_CHECKPOINT))
        assert epochs.to_bytes() == line["text"].encode()
