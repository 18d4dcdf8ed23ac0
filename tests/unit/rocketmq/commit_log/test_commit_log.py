from __future__ import annotations

import threading
from pathlib import Path

import pytest

from logdex.errors import CorruptError, MissingFileError, NotAStoreError, StorageError, TruncatedError
from logdex.io.env import Env
from logdex.io.open_files import OpenFiles
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.testing.store_builder import make_message, write_commit_log

SIZE = 1024
MESSAGES = [make_message(body=bytes([number]) * 100, queue_offset=number) for number in range(20)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_commit_log(str(tmp_path), MESSAGES, SIZE, start_offset=4096)
    return tmp_path


def log_of(root: Path, *, file_size_bytes: int | None = None) -> CommitLog:
    return CommitLog(str(root / "commitlog"), file_size_bytes=file_size_bytes)


def test_files_sizes_and_offsets(root: Path) -> None:
    (root / "commitlog" / "note.txt").write_text("x")
    (root / "commitlog" / ("9" * 20)).write_text("beyond 63 bits")
    log = log_of(root)
    assert log.file_size_bytes == SIZE
    assert [file.start_offset for file in log.files] == [4096, 5120, 6144, 7168]
    assert (log.min_offset, log.end_offset) == (4096, 8192)
    assert set(log.foreign) == {"note.txt", "9" * 20}
    assert log.file_of(4095) is None
    assert log.file_of(8192) is None
    assert log.file_of(5119) == log.files[0]
    assert log.file_of(5120) == log.files[1]


def test_reads_across_files_and_not_beyond(root: Path) -> None:
    log = log_of(root)
    whole = b"".join((root / "commitlog" / f"{file.start_offset:020d}").read_bytes() for file in log.files)
    assert log.read(5000, 2000) == whole[904:2904]
    assert log.read(5000, 0) == b""
    with pytest.raises(MissingFileError, match="8192"):
        log.read(8000, 193)


def test_a_message_costs_its_bytes_and_no_others(root: Path) -> None:
    env = Env()
    log = CommitLog(str(root / "commitlog"), env=env)
    message = log.read_message(4096)
    assert message.body == MESSAGES[0].body
    assert env.counters.read_bytes == message.size_bytes
    assert log.pickup_store_timestamp_ms(4096, message.size_bytes) == message.store_timestamp_ms
    assert log.pickup_store_timestamp_ms(4096, 5000) == -1
    assert log.pickup_store_timestamp_ms(0, message.size_bytes) == -1


def test_no_message_is_a_located_error(root: Path) -> None:
    log = log_of(root)
    with pytest.raises(CorruptError) as caught:
        log.read_message(4097)
    assert (caught.value.path, caught.value.position) == (log.files[0].path, 5)
    with pytest.raises(MissingFileError):
        log.read_message(9999)
    with pytest.raises(TruncatedError) as torn:
        log.read_message(5119)
    assert torn.value.position == 1023


def test_a_size_beyond_the_file_is_not_read(root: Path) -> None:
    path = root / "commitlog" / f"{7168:020d}"
    path.write_bytes((1 << 29).to_bytes(4, "big") + path.read_bytes()[4:])
    env = Env()
    with pytest.raises(TruncatedError, match="536870912"):
        CommitLog(str(root / "commitlog"), env=env).read_message(7168)
    assert env.counters.read_bytes == 8


def test_missing_and_cut_files(root: Path) -> None:
    (root / "commitlog" / f"{5120:020d}").unlink()
    last = root / "commitlog" / f"{7168:020d}"
    last.write_bytes(last.read_bytes()[:100])
    log = log_of(root)
    assert log.file_size_bytes == SIZE
    assert log.gaps() == [(5120, 6144)]
    assert [file.size_bytes for file in log.wrong_sizes] == [100]
    assert log.end_offset == 7268
    with pytest.raises(MissingFileError, match="5120"):
        log.read(5000, 200)


def test_a_given_size_wins_and_an_empty_last_file_is_fine(root: Path) -> None:
    (root / "commitlog" / f"{8192:020d}").write_bytes(b"")
    assert log_of(root).file_size_bytes == SIZE
    assert log_of(root, file_size_bytes=2048).file_size_bytes == 2048
    assert len(log_of(root, file_size_bytes=2048).wrong_sizes) == 5


def test_no_log(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="no such directory"):
        CommitLog(str(tmp_path / "nothing"))
    with pytest.raises(NotAStoreError, match="holds no CommitLog file"):
        CommitLog(str(tmp_path))


def test_a_file_in_the_place_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "commitlog").write_bytes(b"x")
    with pytest.raises(NotAStoreError, match="commitlog: this is not a directory"):
        CommitLog.of_store(tmp_path)


def test_a_dangling_link_is_not_passed_over(root: Path) -> None:
    for start in (8192, 8193):
        (root / "commitlog" / f"{start:020d}").symlink_to(root / "gone")
    log = log_of(root)
    assert "leads to nothing" in str(log.unusable[8192])
    assert (log.files[-1].start_offset, log.files[-1].size_bytes) == (8192, 0)
    assert log.foreign == (f"{8193:020d}",)  # the log has no file there


def test_refresh_sees_new_files(root: Path) -> None:
    log = log_of(root)
    (root / "commitlog" / f"{8192:020d}").write_bytes(bytes(SIZE))
    assert log.end_offset == 8192
    log.refresh()
    assert log.end_offset == 9216


def test_open_files_are_few_and_survive_being_put_out(root: Path) -> None:
    paths = [file.path for file in log_of(root).files]
    files = OpenFiles(Env(), 1)
    with files.lend(paths[0]) as first, files.lend(paths[1]) as second:
        assert first.read_at(0, 4) == Path(paths[0]).read_bytes()[:4]
        assert second.read_at(0, 4) == Path(paths[1]).read_bytes()[:4]
    with pytest.raises(StorageError):
        first.read_at(0, 4)  # closed when it came back
    files.close()


def test_threads_share_a_log(root: Path) -> None:
    log, failures = log_of(root), []

    def read() -> None:
        for file in log.files * 50:
            if log.read_message(file.start_offset).physical_offset != file.start_offset:
                failures.append(file)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
