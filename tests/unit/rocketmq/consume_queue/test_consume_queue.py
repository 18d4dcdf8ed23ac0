from __future__ import annotations

from pathlib import Path

import pytest

from logdex.errors import MissingFileError
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY, PRE_BLANK_SIZE
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue, ConsumeQueueEntry, discover_queues
from logdex.rocketmq.consume_queue.offset_by_time import QueueBounds, offset_in_queue_by_time
from logdex.rocketmq.settings.dialect import Dialect

PER_FILE = 4


def make_queue(root: Path, entries: list[tuple[int, int, int]], *, first: int = 0, spare: int = 0) -> ConsumeQueue:
    """A queue with `entries` from queue offset `first` on, 4 a file, and `spare` empty files
    behind."""
    root.mkdir(parents=True, exist_ok=True)
    files = -(-len(entries) // PER_FILE) + spare
    data = b"".join(CONSUME_QUEUE_ENTRY.pack(*entry) for entry in entries).ljust(files * PER_FILE * 20, b"\0")
    for file in range(files):
        part = data[file * PER_FILE * 20 : (file + 1) * PER_FILE * 20]
        (root / f"{(first + file * PER_FILE) * 20:020d}").write_bytes(part)
    return ConsumeQueue(str(root), b"T", 0)


def entries_at(*offsets: int) -> list[tuple[int, int, int]]:
    return [(offset, 100, 7) for offset in offsets]


@pytest.mark.parametrize("count", range(10))
@pytest.mark.parametrize("spare", [0, 2])
def test_the_end_is_found(tmp_path: Path, count: int, spare: int) -> None:
    queue = make_queue(tmp_path, entries_at(*range(0, 100 * count, 100)), first=8, spare=spare)
    assert queue.max_offset == (8 + count if count or spare else 0)
    assert len(queue.entries(8, 100)) == count


def test_entries_in_bulk_cross_files(tmp_path: Path) -> None:
    queue = make_queue(tmp_path, [(number * 100, 50 + number, -number) for number in range(10)])
    rows = queue.entries(3, 6)
    assert rows["physical_offset"].tolist() == [300, 400, 500, 600, 700, 800]
    assert rows["size"].tolist() == [53, 54, 55, 56, 57, 58]
    assert rows["tags_code"].tolist() == [-3, -4, -5, -6, -7, -8]
    assert queue.entry(9) == ConsumeQueueEntry(900, 59, -9)
    assert len(queue.entries(10, 5)) == 0


def test_offsets_that_no_file_holds(tmp_path: Path) -> None:
    queue = make_queue(tmp_path, entries_at(*range(0, 1200, 100)), first=4)
    for offset in (3, 16, 1 << 62):
        with pytest.raises(MissingFileError, match=str(offset)):
            queue.entry(offset)
    (tmp_path / f"{8 * 20:020d}").unlink()
    queue.refresh()
    assert queue.gaps() == [(160, 240)]
    with pytest.raises(MissingFileError, match="8"):
        queue.entries(4, 12)


@pytest.mark.parametrize(
    ("log_min", "engine", "available"),
    [(0, 0, 0), (1, 1, 1), (100, 1, 1), (300, 3, 3), (301, 0, 4), (700, 0, 7), (800, 8, 8)],
)
def test_minimum_as_the_engine_has_it_and_as_it_is(tmp_path: Path, log_min: int, engine: int, available: int) -> None:
    queue = make_queue(tmp_path, entries_at(*range(0, 800, 100)))
    assert queue.min_offset(log_min) == engine
    assert queue.first_available_offset(log_min) == available


def test_pre_blank_entries_are_written_but_no_messages(tmp_path: Path) -> None:
    queue = make_queue(tmp_path, [(0, PRE_BLANK_SIZE, 0)] * 2 + entries_at(500, 600, 700))
    entry = queue.entry(0)
    assert (entry.is_written, entry.is_pre_blank, entry.is_message) == (True, True, False)
    assert queue.max_offset == 5
    assert queue.first_available_offset(0) == 2
    assert queue.min_offset(500) == 2
    assert queue.max_offset_in(650) == 4


def test_ext_addresses_are_recognised() -> None:
    assert ConsumeQueueEntry(0, 1, -(1 << 31) - 1).is_ext_address
    assert not ConsumeQueueEntry(0, 1, -(1 << 31)).is_ext_address


def test_discovery_passes_over_what_is_no_queue(tmp_path: Path) -> None:
    for name in ("B/1", "B/10", "B/2", "A/0", "A/x", "A/01"):
        (tmp_path / "consumequeue" / name).mkdir(parents=True)
    (tmp_path / "consumequeue" / "file").write_text("")
    found = [(topic, queue_id) for topic, queue_id, _ in discover_queues(str(tmp_path))]
    assert found == [(b"A", 0), (b"B", 1), (b"B", 2), (b"B", 10)]
    assert list(discover_queues(str(tmp_path / "consumequeue"))) == []


TIMES = [10, 20, 20, 20, 30, 50, 50, 60]


@pytest.mark.parametrize(
    ("time", "lower", "upper", "nearest"),
    [
        (5, 0, 0, 0),
        (10, 0, 0, 0),
        (15, 1, 0, 0),
        (20, 1, 3, 1),
        (25, 4, 3, 3),
        (50, 5, 6, 5),
        (60, 7, 7, 7),
        (61, 8, 7, 7),
    ],
)
def test_offset_by_time(tmp_path: Path, time: int, lower: int, upper: int, nearest: int) -> None:
    queue = make_queue(tmp_path, entries_at(*range(0, 800, 100)))

    def ask(version: str, boundary: str = "lower") -> int:
        return offset_in_queue_by_time(
            queue,
            time,
            lambda offset, _: TIMES[offset // 100],
            QueueBounds(0, 8, 0),
            boundary="upper" if boundary == "upper" else "lower",
            dialect=Dialect.of(version),
            modified_ms=lambda path: 30 if path.endswith("0" * 20) else 60,
        )

    assert (ask("5.5.0"), ask("5.5.0", "upper"), ask("4.9.7")) == (lower, upper, nearest)
