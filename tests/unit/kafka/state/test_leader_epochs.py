from __future__ import annotations

from pathlib import Path

import pytest

from logdex.errors import CorruptError, UsageError
from logdex.kafka.state.leader_epochs import EpochEntry, LeaderEpochs, derive_leader_epochs
from logdex.kernels.kafka.batch_columns import BatchColumns, make_batch_columns


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochEntry(*entry) for entry in entries)


def window(*batches: tuple[int, int, int]) -> BatchColumns:
    columns = make_batch_columns(len(batches))
    for place, (magic, epoch, offset) in enumerate(batches):
        columns.magic[place], columns.leader_epoch[place], columns.base_offset[place] = magic, epoch, offset
    return columns


def test_assigning() -> None:
    known = epochs()
    assert not known.entries
    assert epochs().latest_epoch is None
    assert known.assign(2, 10)
    assert not known.assign(2, 11)  # it has begun already
    assert known.assign(4, 12)
    assert known.entries == [(2, 10), (4, 12)]
    assert [known.latest_epoch, known.previous_epoch, known.earliest_entry] == [4, 2, (2, 10)]
    with pytest.raises(UsageError):
        known.assign(-1, 3)
    with pytest.raises(UsageError):
        known.assign(5, -1)


@pytest.mark.parametrize(
    ("entry", "left"),
    [
        ((3, 25), [(1, 5), (2, 10), (3, 25)]),  # an epoch that is not above: later ones go
        ((6, 20), [(1, 5), (2, 10), (6, 20)]),  # an offset that is not above
        ((6, 3), [(6, 3)]),
        ((4, 15), [(1, 5), (2, 10), (4, 15)]),
        ((0, 40), [(0, 40)]),
        ((1, 40), [(1, 40)]),
    ],
)
def test_what_is_said_last_is_true(entry: tuple[int, int], left: list[tuple[int, int]]) -> None:
    known = epochs((1, 5), (2, 10), (4, 20))
    known.assign(*entry)
    assert known.entries == left


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [(-1, (-1, -1)), (0, (0, 5)), (1, (1, 10)), (2, (2, 20)), (3, (2, 20)), (4, (4, 99)), (5, (-1, -1))],
)
def test_end_offsets(epoch: int, answer: tuple[int, int]) -> None:
    assert epochs((1, 5), (2, 10), (4, 20)).end_offset_for(epoch, 99) == answer
    assert epochs().end_offset_for(epoch, 99) == (-1, -1)


def test_epochs_by_offset() -> None:
    known = epochs((1, 5), (2, 10))
    assert [known.epoch_for_offset(offset) for offset in (4, 5, 9, 10, 1000)] == [None, 1, 1, 2, 2]


@pytest.mark.parametrize(("end", "left"), [(21, 3), (20, 2), (11, 2), (10, 1), (0, 0), (-1, 3)])
def test_truncating_the_end(end: int, left: int) -> None:
    known = epochs((1, 5), (2, 10), (4, 20))
    assert known.truncate_from_end(end) == (left < 3)
    assert len(known.entries) == left


@pytest.mark.parametrize(
    ("start", "left"),
    [(4, [(1, 5), (2, 10)]), (5, [(1, 5), (2, 10)]), (7, [(1, 7), (2, 10)]), (10, [(2, 10)]), (30, [(2, 30)])],
)
def test_truncating_the_start(start: int, left: list[tuple[int, int]]) -> None:
    known = epochs((1, 5), (2, 10))
    known.truncate_from_start(start)
    assert known.entries == left


def test_the_fold_takes_rising_epochs_of_magic_2() -> None:
    first = window((1, 9, 0), (2, -1, 3), (2, 0, 5), (2, 0, 6))
    second = window((2, 3, 8), (2, 1, 9), (2, 3, 12), (2, 4, 13))
    assert derive_leader_epochs([first, second]) == b"0\n3\n0 5\n3 8\n4 13\n"
    assert derive_leader_epochs([window((0, -1, 0))]) == b""
    known = epochs((0, 0))
    assert not known.add(window((2, 0, 7)))
    assert known.add(window((2, 1, 8)))


def test_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "leader-epoch-checkpoint")
    assert LeaderEpochs.load(path).entries == []
    known = epochs((0, 0), (7, 123))
    known.save(path)
    assert Path(path).read_bytes() == b"0\n2\n0 0\n7 123\n"
    assert LeaderEpochs.load(path).entries == known.entries
    assert sorted(child.name for child in tmp_path.iterdir()) == ["leader-epoch-checkpoint"]
    known.clear()
    known.save(path)
    assert (Path(path).read_bytes(), LeaderEpochs.load(path).entries) == (b"", [])


@pytest.mark.parametrize(
    "line", ["1", "1 2 3", "x 2", "1 y", "-1 2", "1 -2", "2147483648 1", "1 9223372036854775808", "١ 2"]
)
def test_malformed_lines_are_located(tmp_path: Path, line: str) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text(f"0\n2\n0 0\n{line}\n", encoding="utf-8")
    with pytest.raises(CorruptError) as caught:
        LeaderEpochs.load(str(path))
    assert (caught.value.position, caught.value.field) == (8, "line 4")
