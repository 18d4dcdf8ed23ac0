from __future__ import annotations

import random

import pytest

from logdex.errors import (
    CorruptError,
    CrcMismatchError,
    InvalidControlRecordError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
    TruncatedError,
)
from logdex.kafka.state.producer_batches import decrement_sequence, increment_sequence, producer_batches
from logdex.kafka.state.producer_snapshot import (
    derive_producer_snapshot,
    load_producer_snapshot,
    read_producer_snapshot,
    write_producer_snapshot,
)
from logdex.kafka.state.producer_state import CompletedTxn, ProducerStates
from logdex.kafka.state.written_batches import find_written
from logdex.kernels.kafka.batch_columns import BatchColumns, make_batch_columns
from logdex.layout.kafka import BATCH_CONTROL, BATCH_TRANSACTIONAL, CONTROL_ABORT, CONTROL_COMMIT

SEQUENCE_MAX = (1 << 31) - 1


def data(
    offset: int, producer: int = 1, epoch: int = 0, sequence: int = 0, count: int = 1, *, txn: bool = False, ms: int = 9
) -> dict[str, int]:
    return {
        "base_offset": offset,
        "last_offset": offset + count - 1,
        "producer_id": producer,
        "producer_epoch": epoch,
        "base_sequence": sequence,
        "max_timestamp_ms": ms,
        "attributes": BATCH_TRANSACTIONAL if txn else 0,
        "control_type": -1,
    }


def marker(
    offset: int, producer: int = 1, epoch: int = 0, kind: int = CONTROL_COMMIT, coordinator: int = 0
) -> dict[str, int]:
    return data(offset, producer, epoch, -1) | {
        "attributes": BATCH_TRANSACTIONAL | BATCH_CONTROL,
        "control_type": kind,
        "coordinator_epoch": coordinator,
        "control_timestamp_ms": 20,
    }


def window(*batches: dict[str, int]) -> BatchColumns:
    columns = make_batch_columns(len(batches))
    for place, batch in enumerate(batches):
        for name, value in ({"producer_id": -1, "magic": 2} | batch).items():
            getattr(columns, name)[place] = value
    return columns


def append(states: ProducerStates, *batches: dict[str, int]) -> list[CompletedTxn]:
    prepared = states.prepare(window(*batches))
    assert find_written(states, window(*batches)).batches == 0
    return states.commit(prepared)


def snapshot_fields(states: ProducerStates) -> list[tuple[int, ...]]:
    return [
        (s.producer_id, s.producer_epoch, s.last_sequence, s.last_offset, s.offset_delta, s.current_txn_first_offset)
        for s in read_producer_snapshot(derive_producer_snapshot(states))
    ]


def test_batches_without_a_producer_only_move_the_end() -> None:
    states = ProducerStates()
    assert states.add(window(data(0, producer=-1), data(1, producer=-1, count=4))) == []
    assert (len(states), states.map_end_offset, states.first_unstable_offset) == (0, 5, None)


def test_sequences_go_on_and_gaps_are_refused_without_an_effect() -> None:
    states = ProducerStates()
    append(states, data(0, sequence=0, count=3))
    with pytest.raises(OutOfOrderSequenceError, match="expected 3"):
        states.prepare(window(data(3, sequence=4)))
    append(states, data(3, sequence=3))
    assert snapshot_fields(states) == [(1, 0, 3, 3, 0, -1)]


def test_an_unknown_producer_may_begin_anywhere() -> None:
    states = ProducerStates()
    append(states, data(0, sequence=17, epoch=5))
    append(states, data(1, sequence=18, epoch=5))


def test_a_new_epoch_begins_at_sequence_0_and_fences_the_old_one() -> None:
    states = ProducerStates()
    append(states, data(0, epoch=3, sequence=0))
    with pytest.raises(OutOfOrderSequenceError, match="expected 0"):
        states.prepare(window(data(1, epoch=4, sequence=1)))
    append(states, data(1, epoch=4, sequence=0))
    with pytest.raises(InvalidProducerEpochError, match="epoch 3 is below the last seen 4") as caught:
        states.prepare(window(data(2, epoch=3, sequence=1)))
    assert (caught.value.producer_id, caught.value.offset) == (1, 2)
    with pytest.raises(InvalidProducerEpochError):
        states.prepare(window(marker(2, epoch=3)))


def test_sequences_wrap() -> None:
    states = ProducerStates()
    append(states, data(0, sequence=SEQUENCE_MAX - 9, count=10))
    append(states, data(10, sequence=0, count=2))
    state = states.get(1)
    assert state is not None
    assert (state.last_sequence, state.batches[0].first_sequence) == (1, SEQUENCE_MAX - 9)
    wrapping = ProducerStates()
    append(wrapping, data(0, sequence=SEQUENCE_MAX - 9, count=20))
    append(wrapping, data(20, sequence=10))
    state = wrapping.get(1)
    assert state is not None
    assert [(b.first_sequence, b.last_sequence) for b in state.batches] == [(SEQUENCE_MAX - 9, 9), (10, 10)]
    assert increment_sequence(SEQUENCE_MAX, 1) == 0
    assert decrement_sequence(0, 1) == SEQUENCE_MAX


def test_a_repeated_batch_is_told_with_its_offsets_as_long_as_five_are_remembered() -> None:
    states = ProducerStates()
    for number in range(6):
        append(states, data(10 * number, sequence=2 * number, count=2))
    for number in range(1, 6):
        again = find_written(states, window(data(100, sequence=2 * number, count=2)))
        assert again[:3] == (1, 10 * number, 10 * number + 1)
    with pytest.raises(OutOfOrderSequenceError):
        states.prepare(window(data(100, sequence=0, count=2)))
    with pytest.raises(OutOfOrderSequenceError):  # the same beginning, another length
        states.prepare(window(data(100, sequence=4, count=3)))
    assert states.map_end_offset == 52


def test_a_failed_append_of_several_batches_changes_nothing() -> None:
    states = ProducerStates()
    append(states, data(0, sequence=0))
    before = derive_producer_snapshot(states)
    with pytest.raises(OutOfOrderSequenceError):
        states.prepare(window(data(1, sequence=1), data(2, sequence=3), data(3, producer=2)))
    assert derive_producer_snapshot(states) == before
    assert states.get(2) is None


def test_transactions_open_and_end() -> None:
    states = ProducerStates()
    append(
        states, data(5, producer=1, txn=True), data(6, producer=2, txn=True), data(7, producer=1, sequence=1, txn=True)
    )
    assert [states.first_unstable_offset] == [5]
    assert states.ongoing_transactions == {5: 1, 6: 2}
    assert append(states, marker(8, producer=1, kind=CONTROL_ABORT)) == [CompletedTxn(1, 5, 8, 6, True)]
    assert [states.first_unstable_offset] == [6]
    assert append(states, marker(9, producer=2)) == [CompletedTxn(2, 6, 9, 10, False)]
    assert states.first_unstable_offset is None
    assert append(states, marker(10, producer=2, kind=CONTROL_ABORT)) == []  # nothing was open


def test_a_batch_outside_an_open_transaction_is_refused() -> None:
    states = ProducerStates()
    append(states, data(0, txn=True))
    with pytest.raises(InvalidTxnStateError):
        states.prepare(window(data(1, sequence=1)))
    with pytest.raises(InvalidTxnStateError):
        states.add(window(data(1, sequence=1)))


def test_an_old_coordinator_is_fenced_only_when_it_appends() -> None:
    states = ProducerStates()
    append(states, data(0, txn=True), marker(1, coordinator=5))
    with pytest.raises(TransactionCoordinatorFencedError):
        states.prepare(window(marker(2, coordinator=4)))
    states.add(window(marker(2, coordinator=4)))


def test_what_is_in_the_log_is_taken_as_it_is() -> None:
    states = ProducerStates()
    states.add(window(data(0, epoch=4, sequence=9), data(1, epoch=2, sequence=100)))
    assert snapshot_fields(states) == [(1, 2, 100, 1, 0, -1)]


def test_a_marker_of_a_higher_epoch_forgets_the_sequence() -> None:
    states = ProducerStates()
    states.add(window(data(0, sequence=3, count=4, txn=True), marker(4, epoch=1, kind=CONTROL_ABORT)))
    assert snapshot_fields(states) == [(1, 1, -1, -1, 0, -1)]
    state = states.get(1)
    assert state is not None
    assert (state.last_timestamp_ms, state.coordinator_epoch) == (20, 0)
    append(states, data(5, epoch=1, sequence=0))


def test_a_control_batch_without_its_record_makes_its_producer_known() -> None:
    states = ProducerStates()
    states.add(window(marker(0, producer=7) | {"control_type": -1}))
    assert snapshot_fields(states) == [(7, -1, -1, -1, 0, -1)]


def test_an_unknown_control_record_of_a_producer_is_an_error() -> None:
    with pytest.raises(InvalidControlRecordError, match="type 4"):
        ProducerStates().add(window(marker(3, kind=4)))


def test_producers_expire_by_silence_but_not_within_a_transaction() -> None:
    states = ProducerStates(expiration_ms=1000)
    append(states, data(0, producer=1, ms=100), data(1, producer=2, ms=100, txn=True), data(2, producer=3, ms=101))
    states.remove_expired(1100)
    assert [states.get(key) is not None for key in (1, 2, 3)] == [False, True, True]
    append(states, data(3, producer=1, sequence=55))  # forgotten: may begin anywhere


def test_load_takes_a_snapshot_over_and_drops_what_is_expired() -> None:
    states = ProducerStates(expiration_ms=1000)
    append(states, data(0, producer=1, ms=100), data(1, producer=2, ms=100, txn=True), data(2, producer=3, ms=900))
    again = ProducerStates(expiration_ms=1000)
    again.load(read_producer_snapshot(derive_producer_snapshot(states)), 3, now_ms=1500)
    assert [state.producer_id for state in again.in_snapshot_order()] == [2, 3]
    assert (again.map_end_offset, again.first_unstable_offset) == (3, 1)
    append(again, data(3, producer=2, sequence=1, txn=True), marker(4, producer=2))
    with pytest.raises(OutOfOrderSequenceError):
        again.prepare(window(data(5, producer=3, sequence=0, count=2)))
    again.clear(7)
    assert (len(again), again.map_end_offset, again.first_unstable_offset) == (0, 7, None)


def test_an_earlier_open_transaction_that_is_seen_later_still_comes_first() -> None:
    states = ProducerStates()
    states.add(window(data(9, producer=1, txn=True), data(4, producer=2, txn=True)))
    assert states.first_unstable_offset == 4


def test_leaving_out_what_later_batches_undo_changes_nothing() -> None:
    """The fold over a window against one batch at a time."""
    rng = random.Random(5)
    for _ in range(60):
        batches: list[dict[str, int]] = []
        opened: set[int] = set()
        for offset in range(rng.randrange(1, 120)):
            producer, epoch = rng.randrange(-1, 4), rng.randrange(20) // 19
            if producer >= 0 and rng.random() < 0.1:
                batches.append(marker(offset, producer, epoch, rng.randrange(2)))
                opened.discard(producer)
            else:
                txn = producer in opened or (producer >= 0 and rng.random() < 0.3)
                batches.append(data(offset, producer, epoch, offset, txn=txn, ms=offset))
                opened |= {producer} if txn else set()
        at_once, singly = ProducerStates(), ProducerStates()
        completed = at_once.add(window(*batches))
        assert completed == [done for batch in batches for done in singly.add(window(batch))]
        assert derive_producer_snapshot(at_once) == derive_producer_snapshot(singly)
        assert at_once.ongoing_transactions == singly.ongoing_transactions
        for producer in range(4):
            one, other = at_once.get(producer), singly.get(producer)
            assert (one and list(one.batches)) == (other and list(other.batches))


def test_a_busy_producer_costs_few_batches() -> None:
    batches = [data(offset, sequence=offset) for offset in range(100)]
    assert [batch.base_offset for batch in producer_batches(window(*batches))] == [0, 95, 96, 97, 98, 99]


def test_a_snapshot_is_ordered_as_a_java_hash_map() -> None:
    states = ProducerStates()
    # capacity 16: 17 and 1 share a bucket, in the order in which they came
    states.add(window(*(data(offset, producer=key) for offset, key in enumerate((17, 3, 1, 1 << 32, 2)))))
    assert [state.producer_id for state in states.in_snapshot_order()] == [17, 1, 1 << 32, 2, 3]
    states.add(window(*(data(100 + key, producer=key) for key in range(4, 12))))  # 13 of them: 32 buckets
    assert [state.producer_id for state in states.in_snapshot_order()] == [1, 1 << 32, *range(2, 12), 17]


def test_snapshot_files_survive_and_harm_is_located(tmp_path: pytest.TempPathFactory) -> None:
    path = f"{tmp_path}/00000000000000000003.snapshot"
    states = ProducerStates()
    append(states, data(0, producer=1), data(1, producer=2, txn=True))
    write_producer_snapshot(path, states)
    assert [state.producer_id for state in load_producer_snapshot(path)] == [1, 2]
    raw = derive_producer_snapshot(states)
    assert len(raw) == 10 + 2 * 46
    for place in range(len(raw)):
        harmed = bytearray(raw)
        harmed[place] ^= 4
        with pytest.raises(CorruptError) as caught:
            read_producer_snapshot(bytes(harmed), path=path)
        assert caught.value.path == path
        assert caught.value.position == (0 if place < 2 else 2)
        assert isinstance(caught.value, CrcMismatchError) == (place >= 2)
        with pytest.raises((TruncatedError, CrcMismatchError)):
            read_producer_snapshot(raw[:place], path=path)
