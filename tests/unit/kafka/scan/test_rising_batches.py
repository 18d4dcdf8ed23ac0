"""Which of two batches that contradict each other is the wrong one."""

from __future__ import annotations

import numpy as np
import pytest

from logdex.kafka.scan.rising_batches import RisingBatches, rising
from logdex.kafka.scan.scanner import BatchScanner
from tests.unit.kafka.batch.batch_bytes import batch, record

Batches = list[tuple[int, int]]


def ones(*offsets: int) -> Batches:
    """Batches of one record each."""
    return [(offset, offset) for offset in offsets]


@pytest.mark.parametrize(
    ("batches", "wrong"),
    [
        (ones(1, 2, 3), set()),
        (ones(1, 5, 9), set()),
        (ones(4, 13, 6, 7), {1}),
        (ones(4, 5, 1, 7), {2}),
        (ones(5, 6, 6, 8), {2}),
        (ones(4, 1 << 50, 6, 7), {1}),
        (ones(4, 5, 6, 4, 5, 6, 7), {3, 4, 5}),
        ([(0, 3), (8, 11), (5, 7), (12, 12)], {2}),
        ([(0, 3), (4, 2), (4, 7)], {1}),
        (ones(3, -5, 4), {1}),
    ],
)
def test_the_one_without_room_is_wrong(batches: Batches, wrong: set[int]) -> None:
    base, last = (np.array(column, np.int64) for column in zip(*batches, strict=True))
    assert set(np.flatnonzero(~rising(base, last, (-1, -1))).tolist()) == wrong


@pytest.mark.parametrize("window", [1, 2, 3, 7])
def test_windows_make_no_difference(window: int) -> None:
    offsets = [0, 1, 2, 99, 4, 5, 3, 7, 8, 1 << 40, 10, 11, 11, 13]
    log = b"".join(batch(record(0, 0, b"k", b"v"), 1, base_offset=offset) for offset in offsets)
    judge, good = RisingBatches(-1), list[bool]()
    for part in BatchScanner(window_batches=window).scan_bytes(log):
        judged = judge.add(part.columns)
        good += judged.good.tolist() if judged is not None else []
    judged = judge.flush()
    assert judged is not None
    good += judged.good.tolist()
    assert [offset for offset, is_good in zip(offsets, good, strict=True) if not is_good] == [99, 3, 1 << 40, 11]
    assert judge.last_offset == 13
    assert judge.flush() is None


def test_what_follows_a_file_judges_its_last_batch() -> None:
    log = b"".join(batch(record(0, 0, b"k", b"v"), 1, base_offset=offset) for offset in (0, 1, 77))
    for behind, expected in ((10, [True, True, False]), (None, [True, True, True]), (78, [True, True, True])):
        judge = RisingBatches(-1)
        window = next(BatchScanner().scan_bytes(log))
        first, rest = judge.add(window.columns), judge.flush(behind)
        assert first is not None
        assert rest is not None
        assert [*first.good.tolist(), *rest.good.tolist()] == expected
