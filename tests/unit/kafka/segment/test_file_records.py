"""`FileRecords`: walking headers, cutting, renaming under readers, files that end oddly."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from logdex.errors import CorruptError, StorageError, TruncatedError, UsageError
from logdex.io.env import DEFAULT_ENV
from logdex.io.open_files import OpenFiles
from logdex.kafka.batch.record import Compression
from logdex.kafka.segment.file_records import FileRecords
from tests.unit.kafka.segment.segments import batch

BATCHES = [
    batch(0, 10, 30, leader_epoch=7),
    batch(2, 20, magic=1),
    batch(3, 50, 40, compression=Compression.LZ4),
    batch(5, 60, 70, 80, compression=Compression.GZIP, magic=1),
    batch(8, 5, magic=0),
    batch(9, 100, value=b"x" * 5000),
]


def make(path: Path, data: bytes = b"".join(BATCHES)) -> FileRecords:
    (path / "x.log").write_bytes(data)
    return FileRecords(str(path / "x.log"), writable=True)


def test_headers_of_every_magic(tmp_path: Path) -> None:
    with make(tmp_path) as log:
        found = [(h.base_offset, h.last_offset, h.max_timestamp_ms, h.leader_epoch, h.magic) for h in log.headers()]
        assert found == [
            (0, 1, 30, 7, 2),
            (2, 2, 20, -1, 1),
            (3, 4, 50, 0, 2),
            (7, 7, 80, -1, 1),  # a wrapper has its last message's offset
            (8, 8, -1, -1, 0),
            (9, 9, 100, 0, 2),
        ]
        assert [h.size_bytes for h in log.headers()] == [len(data) for data in BATCHES]
        assert [h.base_offset for h in log.headers(len(BATCHES[0]), stop=log.size_bytes - 1)] == [2, 3, 7, 8]


def test_searches(tmp_path: Path) -> None:
    starts = [sum(map(len, BATCHES[:k])) for k in range(len(BATCHES))]
    with make(tmp_path) as log:
        assert log.search_for_offset(6) == (5, starts[3], len(BATCHES[3]))  # the wrapper's first offset
        assert log.search_for_offset(0, starts[2]) == (3, starts[2], len(BATCHES[2]))
        assert log.search_for_offset(10) is None
        assert log.search_for_timestamp(65) == (70, 6, -1)
        assert log.search_for_timestamp(30) == (30, 1, 7)
        assert log.search_for_timestamp(30, start_offset=3) == (50, 3, 0)
        assert log.search_for_timestamp(101) is None
        assert log.largest_timestamp_after(0) == (100, 9, 0)
        assert log.largest_timestamp_after(log.size_bytes) == (-1, -1, -1)


@pytest.mark.parametrize("left", [1, 16, 17, 18, 60, 61, 5000])
def test_a_torn_end_ends_the_walk(tmp_path: Path, left: int) -> None:
    with make(tmp_path, BATCHES[0] + BATCHES[5][:left]) as log:
        assert len(list(log.headers())) == 1


def test_zeros_and_garbage_are_located(tmp_path: Path) -> None:
    at = len(BATCHES[0])
    for tail, place in ((bytes(18), at + 8), (BATCHES[1][:16] + b"\x03" + BATCHES[1][17:], at + 16)):
        with make(tmp_path, BATCHES[0] + tail) as log, pytest.raises(CorruptError) as caught:
            list(log.headers())
        assert caught.value.position == place


def test_no_batch_at_the_end(tmp_path: Path) -> None:
    with make(tmp_path) as log, pytest.raises(TruncatedError):
        log.batch_at(log.size_bytes)


def test_appending_cutting_and_reading(tmp_path: Path) -> None:
    with FileRecords(str(tmp_path / "new.log"), writable=True) as log:
        assert [log.append(data) for data in BATCHES[:2]] == [0, len(BATCHES[0])]
        assert log.read(0, 1 << 30) == BATCHES[0] + BATCHES[1]
        assert log.read(len(BATCHES[0]), 12) == BATCHES[1][:12]
        assert log.read(1 << 20, 12) == b""
        assert log.truncate_to(len(BATCHES[0])) == len(BATCHES[1])
        log.flush()
        for size in (-1, log.size_bytes + 1):
            with pytest.raises(UsageError, match="cannot be truncated"):
                log.truncate_to(size)
        for arguments in ((-1, 5), (0, -5)):
            with pytest.raises(UsageError):
                log.read(*arguments)
    assert (tmp_path / "new.log").read_bytes() == BATCHES[0]


def test_only_read(tmp_path: Path) -> None:
    make(tmp_path).close()
    with FileRecords(str(tmp_path / "x.log")) as log:
        for change in (lambda: log.append(b"x"), lambda: log.truncate_to(0), log.flush):
            with pytest.raises(UsageError, match="for reading only"):
                change()
    with pytest.raises(StorageError):
        FileRecords(str(tmp_path / "missing.log"))
    assert not (tmp_path / "missing.log").exists()


def test_a_file_beyond_an_int_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "x.log").open("wb") as file:
        file.truncate(1 << 31)
    with pytest.raises(CorruptError, match="too large for a segment"):
        FileRecords(str(tmp_path / "x.log"))


def test_a_file_that_another_cuts_while_it_is_read(tmp_path: Path) -> None:
    make(tmp_path).close()
    with FileRecords(str(tmp_path / "x.log")) as log:
        (tmp_path / "x.log").write_bytes(BATCHES[0][:20])
        with pytest.raises(StorageError, match="truncated by another process"):
            list(log.headers())


def test_renamed_under_readers(tmp_path: Path) -> None:
    data = b"".join(BATCHES)
    errors: list[BaseException] = []
    done = threading.Event()
    with make(tmp_path) as log:

        def read() -> None:
            try:
                while not done.is_set():
                    assert log.read(0, len(data)) == data
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for k in range(40):
            log.rename(str(tmp_path / f"{k}.log"))
        done.set()
        for thread in threads:
            thread.join()
    assert errors == []


def test_few_files_stay_open_and_a_name_can_come_to_mean_another_file(tmp_path: Path) -> None:
    shared = OpenFiles(DEFAULT_ENV, open_max=1)
    logs = []
    for k in range(3):
        (tmp_path / f"{k}.log").write_bytes(BATCHES[k])
        logs.append(FileRecords(str(tmp_path / f"{k}.log"), open_files=shared))
    assert [log.read(0, 9999) for log in logs * 2] == BATCHES[:3] * 2
    logs[2].close()
    (tmp_path / "2.log").unlink()
    (tmp_path / "2.log").write_bytes(BATCHES[3])
    assert FileRecords(str(tmp_path / "2.log"), open_files=shared).read(0, 9999) == BATCHES[3]
    shared.close()
