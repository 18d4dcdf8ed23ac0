"""What verify asks of a .txnindex if the log does not have everything from offset 0 on."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.segment.transaction_index import TransactionIndex
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.verify import verify
from logdex.layout.kafka import TRANSACTION_INDEX_ENTRY

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(cleanup_policy=("compact",))
NAME = f"{0:020d}.txnindex"
SIZE = TRANSACTION_INDEX_ENTRY.size_bytes
FIELDS = ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset")
OFFSETS = [TRANSACTION_INDEX_ENTRY.offset_of(name) for name in FIELDS]


def opened(path: Path) -> Log:
    return Log.open(str(path), CONFIG, clock_ms=lambda: NOW_MS)


def append(log: Log, producer: int, count: int = 1, key: bytes | None = b"k") -> None:
    records = [Record(key, b"v", NOW_MS) for _ in range(count)]
    log.append(records, producer_id=producer, producer_epoch=0, transactional=True)


def end(log: Log, producer: int, *, commit: bool = False) -> None:
    log.append_end_marker(producer, 0, commit=commit, timestamp_ms=NOW_MS)


def write(path: Path) -> Path:
    """Five aborted transactions of three producers, some at the same time, and two committed
    ones."""
    with opened(path) as log:
        append(log, 1, 3)  # 0 to 2
        append(log, 2)  # 3
        end(log, 1)  # 4
        append(log, 1, 2)  # 5, 6
        append(log, 3)  # 7
        end(log, 2, commit=True)  # 8
        append(log, 3, 2)  # 9, 10
        end(log, 1)  # 11
        append(log, 1)  # 12
        append(log, 2, 2)  # 13, 14
        end(log, 3)  # 15
        end(log, 2)  # 16
        end(log, 1, commit=True)  # 17
        append(log, 2)  # 18
        end(log, 2)  # 19
    return path


def findings(path: Path) -> list[tuple[str, int]]:
    return [(found.check, found.position) for found in verify(str(path), CONFIG).findings]


def entries(path: Path) -> list[tuple[int, ...]]:
    return [(*entry,) for entry in TransactionIndex(path / NAME, 0).all_aborted_txns()]


def flips(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """One bit of every byte flipped."""
    for at in range(len(raw)):
        yield at, raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


@pytest.mark.parametrize("start", range(1, 20))
def test_a_log_without_its_first_records_is_sound(start: int, tmp_path: Path) -> None:
    path = write(tmp_path / "events-0")
    with opened(path) as log:
        log.delete_records(start)
    assert findings(path) == []


def test_every_flip_of_a_transaction_that_the_log_shows_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "events-0")
    with opened(path) as log:
        log.delete_records(10)
    assert entries(path) == [(1, 0, 4, 3), (1, 5, 11, 7), (3, 7, 15, 12), (2, 13, 16, 12), (2, 18, 19, 20)]
    raw = (path / NAME).read_bytes()
    unseen = set()
    for at, flipped in flips(raw[2 * SIZE :]):  # of the first two the log has no record
        (path / NAME).write_bytes(raw[: 2 * SIZE] + flipped)
        if not findings(path):
            unseen.add((at // SIZE, FIELDS[bisect_right(OFFSETS, at % SIZE) - 1]))
    # the third began before the log's start, where another one may have begun that was open
    assert unseen <= {(0, "first_offset"), *((entry, "last_stable_offset") for entry in range(3))}
    (path / NAME).write_bytes(raw)
    assert findings(path) == []


@pytest.mark.parametrize("start", range(12))
def test_a_file_that_is_missing_is_found(start: int, tmp_path: Path) -> None:
    path = write(tmp_path / "events-0")
    with opened(path) as log:
        log.delete_records(start)
    (path / NAME).unlink()
    assert findings(path) == [("txn-index-missing", 0)]


def test_an_entry_too_many_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "events-0")
    with opened(path) as log:
        log.delete_records(10)
    raw = (path / NAME).read_bytes()
    for extra in (
        raw[-SIZE:],
        TRANSACTION_INDEX_ENTRY.pack(0, 1, 12, 17, 18),
        TRANSACTION_INDEX_ENTRY.pack(0, 9, 2, 30, 31),
    ):
        (path / NAME).write_bytes(raw + extra)
        assert findings(path) == [("txn-index-entry", 5 * SIZE)]


def compacted(path: Path) -> Path:
    with opened(path) as log:
        for number in range(30):
            log.append([Record(b"%d" % (number % 5), b"v", NOW_MS)])
        append(log, 1, 2, b"aborted")
        end(log, 1)
        log.roll()
        append(log, 2, 2, b"kept")
        append(log, 1, 2, b"late")
        log.roll()
        end(log, 2, commit=True)
        end(log, 1)
        log.append([Record(b"x", b"y", NOW_MS)])
        log.roll()
        log.compact()
        append(log, 1, 2)
        append(log, 2)
        end(log, 1)
        end(log, 2)
    return path


def test_a_compacted_log(tmp_path: Path) -> None:
    path = compacted(tmp_path / "events-0")
    assert findings(path) == []
    name = max(path.glob("*.txnindex"))
    raw = name.read_bytes()
    assert len(raw) == 2 * SIZE
    seen = 0
    for _, flipped in flips(raw):
        name.write_bytes(flipped)
        seen += bool(findings(path))
    assert seen > len(raw) * 0.95
    name.unlink()
    assert [check for check, _ in findings(path)] == ["txn-index-missing"]
