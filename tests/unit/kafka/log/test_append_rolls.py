"""One append over several segments: what each segment says of producers is what its own batches
say."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from logdex.kafka.batch.batch_writer import encode_batch, encode_end_marker
from logdex.kafka.batch.record import Compression, Record
from logdex.kafka.log.log import Log
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kafka.segment.transaction_index import AbortedTxn
from logdex.kafka.snapshot.log_dir_snapshot import open_kafka
from logdex.kafka.state.producer_snapshot import derive_producer_snapshot
from logdex.kafka.state.producer_state import ProducerStates
from logdex.kafka.verify.verifier import verify


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events-0")


def data(offset: int, sequence: int, *, is_transactional: bool = True) -> bytes:
    return encode_batch(
        [Record(b"k", b"v" * 50, 5)],
        base_offset=offset,
        producer_id=7,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )


def marker(offset: int, *, commit: bool = False) -> bytes:
    return encode_end_marker(
        commit, producer_id=7, producer_epoch=0, coordinator_epoch=0, offset=offset, timestamp_ms=5
    )


def snapshots(path: str, bases: list[int]) -> tuple[list[bytes], list[bytes]]:
    """(the snapshots at segments' base offsets, what the segments before them say)."""
    found, expected, states = [], [], ProducerStates()
    for base, following in pairwise(bases):
        for window in BatchScanner().scan_file(f"{path}/{base:020d}.log"):
            states.add(window.columns)
        expected.append(derive_producer_snapshot(states))
        found.append(Path(f"{path}/{following:020d}.snapshot").read_bytes())
    return found, expected


def test_an_aborted_transaction_is_in_the_index_of_the_segment_with_its_marker(path: str) -> None:
    raw = [data(0, 0), marker(1), data(2, 1), marker(3), data(4, 2), marker(5, commit=True), data(6, 3), marker(7)]
    with Log.open(path, segment_bytes=300) as log:
        log.append_batches(b"".join(raw), assign_offsets=False)
        aborted = {segment.base_offset: segment.txn_index.all_aborted_txns() for segment in log.segments}
        assert aborted == {0: [AbortedTxn(7, 0, 1, 2)], 2: [AbortedTxn(7, 2, 3, 4)], 4: [], 6: [AbortedTxn(7, 6, 7, 8)]}
        assert [record.offset for record in log.read(0, isolation="read_committed")] == [4]
    assert verify(path).is_sound
    found, expected = snapshots(path, [0, 2, 4, 6])
    assert found == expected


def test_a_roll_within_an_append_keeps_the_producers_of_what_is_before_it(path: str) -> None:
    with Log.open(path, segment_bytes=300) as log:
        rows = pa.table({"key": [b"k"] * 6, "value": [b"v" * 50] * 6})
        log.append_columns(rows, batch_records=1, producer_id=7, producer_epoch=0, base_sequence=0)
        bases = [segment.base_offset for segment in log.segments]
    assert len(bases) > 2
    found, expected = snapshots(path, bases)
    assert found == expected
    assert verify(path).is_sound


@pytest.mark.parametrize("magic", [0, 1])
def test_a_segment_that_a_wrapper_begins_is_not_named_after_the_wrappers_last_record(path: str, magic: int) -> None:
    with Log.open(path, segment_bytes=300, retention_ms=-1) as log:
        for first in range(0, 30, 3):
            raw = encode_batch(
                [Record(b"k", b"%d" % at) for at in range(3)],
                base_offset=first,
                compression=Compression.GZIP,
                magic=magic,
            )
            log.append_batches(raw, assign_offsets=False)
        assert len(log.segments) > 2
        for segment in log.segments:
            assert segment.log.batch_at(0).first_offset() == segment.base_offset
    with open_kafka(path) as snapshot:
        for end in range(31):
            assert snapshot.scan(end_offset=end).to_arrow().read_all()["offset"].to_pylist() == [*range(end)]
