from __future__ import annotations

from pathlib import Path

import pytest

from logdex.errors import CorruptError, UsageError
from logdex.kafka.segment.transaction_index import AbortedTxn, TransactionIndex, derive_transaction_index

FOUR = [AbortedTxn(0, 0, 10, 11), AbortedTxn(1, 5, 15, 13), AbortedTxn(2, 18, 35, 25), AbortedTxn(3, 32, 50, 40)]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "00000000000000000000.txnindex")


@pytest.fixture
def filled(path: str) -> TransactionIndex:
    index = TransactionIndex(path, 0, writable=True)
    index.append(*FOUR)
    return index


def test_there_is_no_file_until_something_is_appended(path: str) -> None:
    with TransactionIndex(path, 0, writable=True) as index:
        index.append()
        index.reset()
        index.truncate_to(0)
        index.flush()
        index.sanity_check()
        assert index.all_aborted_txns() == []
        assert index.collect_aborted_txns(0, 100) == ([], False)
    assert not Path(path).exists()


def test_entries_stay_and_are_34_bytes(filled: TransactionIndex, path: str) -> None:
    filled.flush()
    filled.close()
    raw = Path(path).read_bytes()
    assert (len(raw), raw) == (4 * 34, derive_transaction_index(FOUR))
    assert raw[34:68].hex() == "0000" + "".join(f"{value:016x}" for value in FOUR[1])
    again = TransactionIndex(path, 0)
    assert again.all_aborted_txns() == FOUR
    again.sanity_check()


def test_markers_must_rise(path: str) -> None:
    index = TransactionIndex(path, 0, writable=True)
    index.append(AbortedTxn(1, 5, 15, 13))
    for last in (15, 14):
        with pytest.raises(UsageError, match="not above 15"):
            index.append(AbortedTxn(0, 0, last, 11))
    with pytest.raises(UsageError):
        index.append(AbortedTxn(0, 0, 20, 11), AbortedTxn(0, 0, 20, 11))
    reopened = TransactionIndex(path, 0, writable=True)
    with pytest.raises(UsageError, match="not above 15"):
        reopened.append(AbortedTxn(0, 0, 15, 11))
    reopened.reset()
    reopened.append(AbortedTxn(0, 0, 3, 4))
    assert reopened.all_aborted_txns() == [AbortedTxn(0, 0, 3, 4)]


@pytest.mark.parametrize(
    ("fetch_offset", "upper", "places", "complete"),
    [
        (0, 100, [0, 1, 2, 3], False),
        (0, 32, [0, 1, 2], True),
        (0, 35, [0, 1, 2, 3], True),
        (10, 35, [0, 1, 2, 3], True),
        (11, 35, [1, 2, 3], True),
        (20, 41, [2, 3], False),
        (0, 11, [0], True),
        (51, 100, [], False),
    ],
)
def test_collecting(filled: TransactionIndex, fetch_offset: int, upper: int, places: list[int], complete: bool) -> None:
    """Ends behind the first entry whose last stable offset reaches the upper bound: later ones
    cannot matter."""
    found = filled.collect_aborted_txns(fetch_offset, upper)
    assert (found.aborted, found.is_complete) == ([FOUR[place] for place in places], complete)


def test_truncating(filled: TransactionIndex, path: str) -> None:
    for offset, left in ((51, 4), (50, 3), (36, 3), (35, 2), (16, 2), (15, 1), (10, 0)):
        filled.truncate_to(offset)
        assert filled.all_aborted_txns() == FOUR[:left]
        assert Path(path).stat().st_size == left * 34
    filled.append(FOUR[3])
    assert TransactionIndex(path, 0).all_aborted_txns() == [FOUR[3]]
    filled.delete()
    assert not Path(path).exists()
    assert filled.all_aborted_txns() == []


def test_a_reader_refuses_to_write_and_sees_more_after_refresh(path: str) -> None:
    writer, reader = TransactionIndex(path, 0, writable=True), TransactionIndex(path, 0)
    writer.append(FOUR[0])
    assert reader.all_aborted_txns() == []
    reader.refresh()
    assert reader.all_aborted_txns() == [FOUR[0]]
    with pytest.raises(UsageError, match="reading only"):
        reader.append(FOUR[1])


def test_a_torn_entry_is_told_and_written_over(filled: TransactionIndex, path: str) -> None:
    filled.close()
    Path(path).write_bytes(Path(path).read_bytes()[:-5])
    index = TransactionIndex(path, 0, writable=True)
    with pytest.raises(CorruptError) as caught:
        index.sanity_check()
    assert caught.value.position == 3 * 34
    assert index.all_aborted_txns() == FOUR[:3]
    index.append(FOUR[3])
    index.sanity_check()


@pytest.mark.parametrize(
    ("start_offset", "place", "byte", "field"),
    [(11, None, 18, "last_offset"), (0, 69, 68, "version"), (0, 93, 86, "last_offset")],
)
def test_sanity(
    filled: TransactionIndex, path: str, start_offset: int, place: int | None, byte: int, field: str
) -> None:
    filled.close()
    raw = bytearray(Path(path).read_bytes())
    if place is not None:
        raw[place] = 1
    Path(path).write_bytes(raw)
    with pytest.raises(CorruptError) as caught:
        TransactionIndex(path, start_offset).sanity_check()
    assert (caught.value.position, caught.value.field) == (byte, field)


@pytest.mark.parametrize(
    ("transaction", "named"),
    [
        (AbortedTxn(1 << 63, 5, 60, 13), f"producer_id is {1 << 63}"),
        (AbortedTxn(1, 5, 1 << 63, 13), "last_offset"),
        (AbortedTxn(1, -(1 << 63) - 1, 60, 13), "first_offset"),
    ],
)
def test_numbers_that_no_entry_holds_are_refused(filled: TransactionIndex, transaction: AbortedTxn, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        filled.append(AbortedTxn(4, 32, 55, 40), transaction)
    assert filled.all_aborted_txns() == FOUR
    filled.append(AbortedTxn((1 << 63) - 1, 32, 60, 40))
    assert len(filled.all_aborted_txns()) == 5
