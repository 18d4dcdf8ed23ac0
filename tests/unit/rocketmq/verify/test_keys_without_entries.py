"""Keys without entries: what a broker leaves is information, a file that anything else removed is a
finding."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.index_file.index_file import IndexFile
from logdex.rocketmq.index_file.index_service import IndexService
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from logdex.testing.store_builder import make_message, write_commit_log
from tests.examples import cases
from tests.unit.rocketmq.verify.test_verify import SMALL

START_MS = 1_700_000_000_000
FILE_MESSAGES = 13  # of three keys each


class Broker:
    """A store whose index is kept as a broker keeps it: after a crash it removes IndexFiles for
    which the checkpoint does not vouch, and indexes anew from where a CommitLog file begins."""

    def __init__(self, root: Path, times_ms: Sequence[int]) -> None:
        self.root = root
        messages = [
            make_message(
                queue_id=0,
                queue_offset=n,
                body=b"body %d" % n,
                store_timestamp_ms=START_MS + time_ms,
                properties=[(b"KEYS", b"k-%d all" % n), (b"TAGS", b"TagA")],
            )
            for n, time_ms in enumerate(times_ms)
        ]
        write_commit_log(str(root), messages, SMALL.mapped_file_size_commit_log)
        rebuild(str(root), str(root), SMALL, in_place=True, sync=False)
        shutil.rmtree(root / "index")
        (root / "checkpoint").write_bytes(StoreCheckpoint(START_MS, START_MS).pack().ljust(4096, b"\0"))
        with StoreSnapshot(str(root), config=SMALL) as store:
            self.rows: list[StoredMessage] = list(store.scan())
        size = SMALL.mapped_file_size_commit_log
        self.begins = [n for n, row in enumerate(self.rows) if row.physical_offset % size == 0]
        """The first message of each CommitLog file."""

    @property
    def files(self) -> list[Path]:
        return sorted((self.root / "index").iterdir())

    def put(self, first: int, end: int | None = None) -> None:
        with IndexService(str(self.root / "index"), SMALL, writable=True) as service:
            for row in self.rows[first:end]:
                service.build_index(row)
            full = [file.header.end_timestamp_ms for file in service.files[:-1] if file.is_write_full]
        checkpoint = StoreCheckpoint.read(str(self.root / "checkpoint"))
        checkpoint = checkpoint._replace(index_msg_timestamp_ms=full[-1] if full else 0)
        (self.root / "checkpoint").write_bytes(checkpoint.pack().ljust(4096, b"\0"))

    def load_after_crash(self) -> None:
        kept_ms = StoreCheckpoint.read(str(self.root / "checkpoint")).index_msg_timestamp_ms
        for path in self.files:
            with IndexFile(str(path), SMALL) as file:
                is_kept = file.header.end_timestamp_ms <= kept_ms
            if not is_kept:
                path.unlink()

    def crash(self, end: int) -> None:
        """Indexed up to message `end`, then a crash: what the next start leaves."""
        self.load_after_crash()
        self.put(max(begin for begin in self.begins if begin <= end))

    def look(self) -> tuple[list[str], list[str]]:
        """The checks that found something about the index, and what is information."""
        report = verify(str(self.root), SMALL)
        assert [finding.check for finding in report.findings if not finding.check.startswith("index")] == []
        return [finding.check for finding in report.findings], [
            info.kind for info in report.infos if info.kind.startswith("index-")
        ]


STEPS: dict[str, Callable[[int], int]] = {
    "milliseconds": lambda n: n,
    "same": lambda _: 0,
    "700 ms": lambda n: 700 * n,
    "seconds": lambda n: 3_000 * n,
    "minutes": lambda n: 60_000 * n,
    "a pause": lambda n: 10 * n + (60_000 if n >= 40 else 0),
    "set back": lambda n: 700 * n - (30_000 if n >= 45 else 0),
    "set back often": lambda n: 700 * n - 5_000 * (n // 7),
}


@pytest.mark.parametrize("step", cases(STEPS, 4, first=2))
def test_a_crash(tmp_path: Path, step: str) -> None:
    """The newest file, which is not full, is removed; what is behind goes on at a CommitLog
    file."""
    for end in range(5, 90, 17):
        broker = Broker(tmp_path / str(end), [STEPS[step](n) for n in range(90)])
        broker.put(0, end)
        broker.crash(end)
        findings, infos = broker.look()
        assert findings == [], end
        assert set(infos) <= {"index-not-written", "index-repeated-entries"}, end


@pytest.mark.parametrize("step", cases(STEPS, 4, first=2))
def test_crash_after_crash(tmp_path: Path, step: str) -> None:
    broker = Broker(tmp_path, [STEPS[step](n) for n in range(150)])
    broker.put(0, 30)
    for end in (50, 58, 95, 130):
        broker.load_after_crash()
        broker.put(max(begin for begin in broker.begins if begin <= end), end)
    assert broker.look()[0] == []


@pytest.mark.parametrize("step", cases(STEPS, 4, first=2))
def test_a_crash_after_which_the_index_is_switched_off(tmp_path: Path, step: str) -> None:
    for end in (20, 39, 45):
        broker = Broker(tmp_path / str(end), [STEPS[step](n) for n in range(90)])
        broker.put(0, end)
        broker.load_after_crash()
        findings, infos = broker.look()
        assert (findings, set(infos)) == ([], {"index-not-written"}), end
        broker.put(71)  # and on again
        findings, infos = broker.look()
        assert (findings, set(infos)) == ([], {"index-not-written"}), end


@pytest.mark.parametrize("step", cases(STEPS, 4, first=2))
def test_an_index_that_is_switched_on_later(tmp_path: Path, step: str) -> None:
    for first in (1, 17, 60):
        broker = Broker(tmp_path / str(first), [STEPS[step](n) for n in range(90)])
        broker.put(first)
        assert broker.look() == ([], ["index-not-written"]), first


def test_a_full_file_that_a_clock_set_back_had_removed(tmp_path: Path) -> None:
    """The checkpoint names the time of the newest full file, which is before that of the file
    before it."""
    broker = Broker(tmp_path, [700 * n - (100_000 if n >= 15 else 0) for n in range(90)])
    broker.put(0, 33)
    first = broker.files[0]
    broker.crash(33)
    assert not first.exists()
    assert broker.look()[0] == []


@pytest.mark.parametrize("step", cases(["same", "700 ms", "seconds", "minutes", "a pause", "milliseconds"], 3))
@pytest.mark.parametrize("lost", [1, 2, 5])
def test_files_that_were_deleted(tmp_path: Path, step: str, lost: int) -> None:
    """If all messages of a log have the same time, nothing tells a file between two others, but
    that it was full."""
    for first in (0, 1, 4):
        broker = Broker(tmp_path / str(first), [STEPS[step](n) for n in range(160)])
        broker.put(0)
        if broker.rows[FILE_MESSAGES * (first + lost)].physical_offset % SMALL.mapped_file_size_commit_log == 0:
            continue
        for path in broker.files[first : first + lost]:
            path.unlink()
        findings, infos = broker.look()
        assert findings == ["index-missing-range"], (first, infos)


@pytest.mark.parametrize("end", cases([27, 14, 16, 25, 51], 3))
def test_files_before_one_that_repeats_keys_of_the_last(tmp_path: Path, end: int) -> None:
    """A message whose keys a full file shares is indexed again as a whole after a crash, so its
    keys in the deleted file are not missing."""
    broker = Broker(tmp_path, list(range(90)))
    broker.put(0, end)
    broker.crash(end)
    assert broker.look()[0] == []
    files = broker.files
    for path in files[:-1]:
        path.unlink()
    findings, infos = broker.look()
    assert findings == ["index-missing-range"], infos


def test_expired_files_before_a_crash(tmp_path: Path) -> None:
    """The file before the missing keys has expired with its part of the log."""
    broker = Broker(tmp_path, [3_000 * n for n in range(150)])
    broker.put(0, 30)
    broker.crash(101)
    assert broker.look() == ([], ["index-not-written"])
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    for path in broker.files[:2]:
        path.unlink()
    findings, _ = broker.look()
    assert findings == []


def test_all_files_are_gone_before_the_index_is_switched_off(tmp_path: Path) -> None:
    """The full files have expired with their part of the log, and a crash took the newest one."""
    broker = Broker(tmp_path, [3_000 * n for n in range(90)])
    broker.put(0, 30)
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    for path in broker.files:
        path.unlink()
    assert broker.look() == ([], ["index-not-written"])


def test_the_newest_files_that_were_deleted(tmp_path: Path) -> None:
    """The checkpoint vouches for full files. The newest one is what a broker removes itself after a
    crash."""
    for lost, expected in ((1, []), (2, ["index-missing-range"]), (3, ["index-missing-range"])):
        broker = Broker(tmp_path / str(lost), [700 * n for n in range(90)])
        broker.put(0)
        for path in broker.files[-lost:]:
            path.unlink()
        assert broker.look()[0] == expected, lost


@pytest.mark.parametrize("keys", [b"x", b"x x n-%d", b"n-%d x x"])
def test_keys_that_are_put_again_after_a_crash(tmp_path: Path, keys: bytes) -> None:
    """After a crash the broker puts the keys of the newest indexed message again. Wherever they
    stand in an IndexFile, and whichever keys are equal, the first of them is not taken for a harmed
    entry of the next message."""
    config = replace(SMALL, max_index_num=12)
    messages = [
        make_message(
            queue_id=0,
            queue_offset=at,
            store_timestamp_ms=START_MS + at,
            properties=[(b"KEYS", keys.replace(b"%d", b"%d" % at))],
        )
        for at in range(14)
    ]
    write_commit_log(str(tmp_path), messages, config.mapped_file_size_commit_log)
    rebuild(str(tmp_path), str(tmp_path), config, in_place=True, sync=False)
    with StoreSnapshot(str(tmp_path), config=config) as store:
        rows = list(store.scan())
    for last in range(14):
        shutil.rmtree(tmp_path / "index")
        with IndexService(str(tmp_path / "index"), config, writable=True) as service:
            for row in [*rows[: last + 1], *rows[last:]]:
                service.build_index(row)
        assert verify(str(tmp_path), config).findings == [], last
