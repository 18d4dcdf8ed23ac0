"""What ConsumeQueues say of a part of a log: entries by physical offset, and the bytes that they
fill."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.open_files import OpenFiles
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY, PRE_BLANK_SIZE
from logdex.rocketmq.consume_queue import queue_cursor
from logdex.rocketmq.consume_queue.consume_queue import STORED_DTYPE
from logdex.rocketmq.consume_queue.queue_coverage import PieceEntries
from logdex.rocketmq.consume_queue.queue_cursor import EntryRun, QueueCursor, open_cursors

ENTRIES_PER_FILE = 8
Entry = tuple[int, int]
"""Where an entry points to, and the size that it says."""


def write_queue(root: Path, entries: list[Entry], topic: str = "T", queue_id: int = 0, first: int = 0) -> Path:
    """A queue's files, from queue offset `first` on, which begins a file; tags codes are 7 times
    the offset."""
    folder = root / "consumequeue" / topic / str(queue_id)
    folder.mkdir(parents=True)
    data = b"".join(CONSUME_QUEUE_ENTRY.pack(offset, size, 7 * offset) for offset, size in entries)
    size = 20 * ENTRIES_PER_FILE
    for at in range(0, max(len(data), 1), size):
        (folder / f"{20 * first + at:020d}").write_bytes(data[at : at + size].ljust(size, b"\0"))
    return folder


def only_cursor(root: Path, env: Env = DEFAULT_ENV) -> QueueCursor:
    (cursor,) = open_cursors(str(root), env, OpenFiles(env))
    return cursor


def taken(cursor: QueueCursor, begin: int, end: int) -> list[tuple[int, int, int]]:
    """(queue offset, physical offset, size) of what a cursor gives."""
    rows = []
    for run in cursor.take(begin, end):
        assert run.tags_codes.tolist() == (7 * run.offsets).tolist()
        rows += list(zip(run.queue_offsets.tolist(), run.offsets.tolist(), run.sizes.tolist(), strict=True))
    return rows


@pytest.mark.parametrize("seed", range(30))
def test_a_cursor_gives_what_points_into_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = Random(seed)
    monkeypatch.setattr(queue_cursor, "BLOCK_ENTRIES_MIN", 3)
    monkeypatch.setattr(queue_cursor, "BLOCK_ENTRIES_MAX", chance.choice((3, 5, 100)))
    monkeypatch.setattr(queue_cursor, "SEARCH_BYTES_MIN", chance.choice((0, 500, 1 << 30)))
    offsets = np.cumsum([chance.randrange(91, 400) for _ in range(chance.choice((0, 1, 8, 30, 50)))]).tolist()
    first = chance.choice((0, 3 * ENTRIES_PER_FILE))
    write_queue(tmp_path, [(offset, 91) for offset in offsets], first=first)
    cursor = only_cursor(tmp_path)
    at = 0
    for _ in range(20):
        begin = chance.choice((at, at, chance.randrange(12_000)))
        at = begin + chance.randrange(4_000)
        expected = [(first + n, offset, 91) for n, offset in enumerate(offsets) if begin <= offset < at]
        assert taken(cursor, begin, at) == expected


def test_entries_that_fall_are_not_believed(tmp_path: Path) -> None:
    write_queue(tmp_path, [(100, 91), (50, 91), (300, 91)])
    assert taken(only_cursor(tmp_path), 0, 1_000) == []


def test_pre_blank_entries_and_unwritten_ones_count_for_nothing(tmp_path: Path) -> None:
    write_queue(tmp_path, [(0, PRE_BLANK_SIZE), (0, PRE_BLANK_SIZE), (100, 91), (200, 91)])
    cursor = only_cursor(tmp_path)
    assert taken(cursor, 1, 1_000) == [(2, 100, 91), (3, 200, 91)]
    entries = PieceEntries.of([only_cursor(tmp_path)], 0, 1_000).runs((0,))[0][1]
    assert entries.queue_offsets.tolist() == [2, 3]


def test_a_missing_file_leaves_a_hole(tmp_path: Path) -> None:
    folder = write_queue(tmp_path, [(100 * n, 91) for n in range(1, 25)])
    sorted(folder.iterdir())[1].unlink()
    given = [row[0] for row in taken(only_cursor(tmp_path), 0, 10_000)]
    assert given == [*range(8), *range(16, 24)]


def test_what_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    folder = write_queue(tmp_path, [(100, 91)])
    cursor = only_cursor(tmp_path)
    (folder / f"{0:020d}").unlink()
    assert taken(cursor, 0, 1_000) == []
    assert open_cursors(str(tmp_path / "nothing"), DEFAULT_ENV, OpenFiles(DEFAULT_ENV)) == []


def run_of(entries: list[Entry]) -> EntryRun:
    offsets, sizes = np.array(entries, np.int64).reshape(-1, 2).T
    return EntryRun(offsets, sizes, np.zeros(len(entries), STORED_DTYPE), 0)


def plain_ranges(entries: list[Entry], begin: int, end: int) -> list[tuple[int, int, int]]:
    """`covered_ranges`, said plainly."""
    spans = sorted({(offset, offset + size) for offset, size in entries})
    good = [one for one in spans if not any(one[0] < b and a < one[1] for a, b in spans if (a, b) != one)]
    ranges: list[tuple[int, int, int]] = []
    for low, high in good:
        if high > end:
            continue
        if ranges and ranges[-1][1] == low:
            ranges[-1] = (ranges[-1][0], high, low)
        else:
            ranges.append((low, high, low))
    return ranges


@pytest.mark.parametrize("seed", range(200))
def test_ranges_are_what_entries_fill_without_a_gap(seed: int) -> None:
    chance = Random(seed)
    begin = chance.choice((0, 1 << 40))
    queues: list[list[Entry]] = [[] for _ in range(chance.randrange(1, 5))]
    at = begin
    for _ in range(chance.choice((0, 1, 5, 40))):
        size = chance.choice((91, 100, 150))
        chance.choice(queues).append((at, size))
        if chance.random() < 0.1:  # the same once more, or one that overlaps it, or is too large
            chance.choice(queues).append((at + chance.choice((0, 0, 50)), chance.choice((size, 120, 4_000))))
        at += size + chance.choice((0,) * 8 + (8, 200))
    end = at + chance.choice((0, -100, 50))
    said = PieceEntries((number, run_of(sorted(queue))) for number, queue in enumerate(queues) if queue)
    everything = [entry for queue in queues for entry in queue]
    assert [tuple(row) for row in said.covered_ranges(begin, end).tolist()] == plain_ranges(everything, begin, end)


def test_entries_are_looked_up_left_out_and_put_in_order() -> None:
    said = PieceEntries([(0, run_of([(0, 100), (300, 100)])), (2, run_of([(100, 200), (400, 91)]))])
    last = said.last()
    assert (last.offsets.tolist(), last.queue.tolist()) == ([300, 400], [0, 2])
    found = said.at(np.array([100, 150, 300]))
    assert list(zip(found.offsets.tolist(), found.sizes.tolist(), found.queue.tolist(), strict=True)) == [
        (100, 200, 2),
        (300, 100, 0),
    ]
    said.leave_out(found.where(slice(0, 1)))
    assert said.covered_ranges(0, 1_000).tolist() == [[0, 100, 0], [300, 491, 400]]
    said.leave_out(found.where(slice(1, 2)), whole_queues=True)
    assert said.covered_ranges(0, 1_000).tolist() == [[400, 491, 400]]
