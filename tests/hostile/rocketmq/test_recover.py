"""Recovering logs that were cut or harmed at any byte, and logs whose bodies contain messages:
every whole message is saved, nothing inside a body ever is, and the output is clean."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.recover import RecoverReport, recover
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify import verify
from tests.examples import some
from tests.hostile.rocketmq import embedded
from tests.hostile.rocketmq.embedded import EMBEDDINGS, Embedding, Log, build_log, ending_with_it
from tests.hostile.rocketmq.test_embedded_logs import AMBIGUOUS, flips
from tests.unit.rocketmq.small_stores import CONFIG, FILE_SIZE, MESSAGES, build


def saved_by(report: RecoverReport, out: Path, config: StoreConfig) -> list[int]:
    """The physical offsets of the messages in the output that are no placeholders. The log is
    whole."""
    scanner, found = Scanner(config), list[int]()
    with CommitLog.of_config(str(out), config) as log:
        for window in scanner.scan(log):
            topics = [scanner.table.queues[number].topic for number in window.columns.queue[: window.count].tolist()]
            offsets = window.columns.position[: window.count].tolist()
            found += [at for at, topic in zip(offsets, topics, strict=True) if not is_lost(topic)]
    assert scanner.end is not None
    assert (scanner.end.is_clean, scanner.end.offset) == (True, report.end_offset)
    return found


def is_lost(topic: bytes) -> bool:
    return b"LOGDEX_LOST".startswith(topic)


class Runs:
    """Recoveries of one store into new folders."""

    def __init__(self, root: Path, folder: Path, config: StoreConfig) -> None:
        self.root, self.config = root, config
        self._folder = folder
        self._count = 0

    def run(self) -> tuple[list[int], Path, RecoverReport]:
        self._count += 1
        out = self._folder / f"out-{self._count}"
        report = recover(self.root, out, self.config, sync=False)
        return saved_by(report, out, self.config), out, report


@pytest.mark.parametrize("with_queues", [True, False])
def test_every_cut(with_queues: bool, tmp_path: Path) -> None:
    """The newest file ends at a byte, or has zeros from there on."""
    root = build(tmp_path / "store", MESSAGES[:14])
    runs = Runs(root, tmp_path, CONFIG)
    whole, _, _ = runs.run()
    if not with_queues:
        (root / "consumequeue").rename(tmp_path / "away")
    path = max((root / "commitlog").iterdir())
    data, start = path.read_bytes(), int(path.name)
    written = len(data.rstrip(b"\0"))
    sizes = {at: int.from_bytes(data[at - start :][:4], "big") for at in whole if at >= start}
    for at in some(range(0, written + 20, 11), 12):
        for cut in (data[:at], data[:at].ljust(FILE_SIZE, b"\0")):
            path.write_bytes(cut)
            saved, _, _ = runs.run()
            must = [each for each in whole if each < start or each - start + sizes[each] <= at]
            assert saved[: len(must)] == must
            assert set(saved) <= set(whole)


def test_every_flipped_byte(tmp_path: Path) -> None:
    """All other messages are saved, and what was derived belongs to the log."""
    root = build(tmp_path / "store", MESSAGES[:24])
    runs = Runs(root, tmp_path, CONFIG)
    whole, _, _ = runs.run()
    path = min((root / "commitlog").iterdir())
    data = path.read_bytes()
    edges = [*(at for at in whole if at < FILE_SIZE), len(data.rstrip(b"\0")), FILE_SIZE]
    for at in some(range(0, FILE_SIZE, 7), 30):
        for mask in (0x01, 0xFF):
            path.write_bytes(data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :])
            saved, _, _ = runs.run()
            harmed = max(edge for edge in edges if edge <= at)
            assert [each for each in saved if each != harmed] == [each for each in whole if each != harmed]


def check_flip(log: Log, runs: Runs, holder: int, offset: int, mask: int) -> None:
    old = log.byte(offset)
    log.change(offset, bytes([old ^ mask]))
    damaged = log.offsets[holder]
    saved, _, _ = runs.run()
    assert [at for at in saved if at != damaged] == [at for at in log.offsets if at != damaged]
    log.change(offset, bytes([old]))


@pytest.mark.parametrize("embedding", EMBEDDINGS)
@pytest.mark.parametrize(
    "holder", [0, pytest.param(6, marks=pytest.mark.slow), pytest.param(13, marks=pytest.mark.slow)]
)
def test_one_harmed_byte_of_a_message_that_contains_messages(embedding: Embedding, holder: int, tmp_path: Path) -> None:
    log = build_log(tmp_path / "store", embedding)
    runs = Runs(log.root, tmp_path, embedded.CONFIG)
    for offset, mask in some([*flips(log, holder)], 60, first=13):
        check_flip(log, runs, holder, offset, mask)


@pytest.mark.parametrize("embedding", EMBEDDINGS)
@pytest.mark.parametrize("size", [48, pytest.param(embedded.HEAD_SIZE + 300, marks=pytest.mark.slow)])
def test_a_lost_head_of_a_message_that_contains_messages(embedding: Embedding, size: int, tmp_path: Path) -> None:
    log = build_log(tmp_path / "store", embedding)
    with_queues = Runs(log.root, tmp_path, embedded.CONFIG)
    holder = log.holders[1]
    start = log.offsets[holder]
    log.change(start, random.Random(holder).randbytes(size))
    real = [at for at in log.offsets if at != start]
    saved, out, _ = with_queues.run()
    assert saved == real
    assert [str(each) for each in verify(str(out), embedded.CONFIG).findings] == []
    (log.root / "consumequeue").rename(tmp_path / "away")
    saved, _, _ = with_queues.run()
    if embedding is not ending_with_it:
        assert set(saved) <= set(real)
    if embedding not in AMBIGUOUS:
        assert saved == real


@pytest.mark.parametrize("seed", range(3))
def test_files_of_any_content(seed: int, tmp_path: Path) -> None:
    """Names, lengths and bytes that no broker makes."""
    rng = random.Random(seed)
    root = build(tmp_path / "store", MESSAGES)
    folder = root / "commitlog"
    for name, data in (
        (f"{FILE_SIZE * 3:020d}", rng.randbytes(rng.choice([0, 1, 7, 91, FILE_SIZE, FILE_SIZE * 2 + 5]))),
        (f"{FILE_SIZE * 9 + 1:020d}", rng.randbytes(500)),
        (f"{(1 << 63) - 2 * FILE_SIZE:020d}", min(folder.iterdir()).read_bytes()),
        ("name", b"x"),
    ):
        (folder / name).write_bytes(data)
    (folder / f"{FILE_SIZE * 20:020d}").mkdir()
    saved, out, report = Runs(root, tmp_path, CONFIG).run()
    assert saved[:5] == [at for at in saved if at < FILE_SIZE][:5]
    assert report.lossy
    assert [str(each) for each in verify(str(out), CONFIG).findings] == []
