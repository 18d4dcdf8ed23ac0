"""Whoever asks where a log ends gets the same answer: offset, kind and reason, whatever harm was
done to the log."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.io.env import DEFAULT_ENV
from logdex.layout.rocketmq import MESSAGE_MAGIC_V1
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.commit_log.log_end import EndKind, LogEnd
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message.tags_code import SCHEDULE_TOPIC_NAME
from logdex.rocketmq.rebuild.local import rebuild
from logdex.rocketmq.rebuild.parts import PartScan, WholeLog, join_parts, plan_parts, scan_part
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.snapshot.overview import overview
from logdex.rocketmq.verify.checks import Collector
from logdex.rocketmq.verify.log_scan import LogPass
from logdex.testing.store_builder import make_message
from tests.examples import cases
from tests.unit.rocketmq.small_stores import CONFIG, FILE_SIZE, build, message, opened

Harm = Callable[[list[Path], random.Random], None]


def some_messages(rng: random.Random) -> list[StoredMessage]:
    made = [
        message(n, keys=f"k-{n}" if rng.random() < 0.7 else "", body=rng.randbytes(rng.choice([0, 9, 200])))
        for n in range(rng.randint(1, 60))
    ]
    if rng.random() < 0.1:
        delayed = make_message(SCHEDULE_TOPIC_NAME, queue_id=3, properties=[(b"DELAY", rng.choice([b"2", b"x"]))])
        made.insert(rng.randrange(len(made) + 1), delayed)
    return made


def cut(files: list[Path], rng: random.Random) -> None:
    path = rng.choice(files)
    path.write_bytes(path.read_bytes()[: rng.choice([0, 5, rng.randrange(FILE_SIZE), rng.randrange(FILE_SIZE)])])


def flip(files: list[Path], rng: random.Random) -> None:
    path = rng.choice(files)
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
    path.write_bytes(data)


def zero(files: list[Path], rng: random.Random) -> None:
    path = rng.choice(files)
    data = bytearray(path.read_bytes())
    starts = [at for at in range(len(data)) if data[at + 4 : at + 8] == MESSAGE_MAGIC_V1.to_bytes(4, "big")]
    start = rng.choice([rng.randrange(len(data)), *starts])
    end = min(len(data), start + rng.choice([8, 100, 600, FILE_SIZE]))
    data[start:end] = bytes(end - start)
    path.write_bytes(data)


def zero_the_tail(files: list[Path], rng: random.Random) -> None:
    data = files[-1].read_bytes()
    files[-1].write_bytes(data[: rng.randrange(len(data.rstrip(b"\0")) + 1)].ljust(len(data), b"\0"))


def lose(files: list[Path], rng: random.Random) -> None:
    if len(files) > 1:
        rng.choice(files).unlink()


def make_ahead(files: list[Path], rng: random.Random) -> None:
    behind = files[-1].with_name(f"{int(files[-1].name) + FILE_SIZE:020d}")
    behind.write_bytes(bytes(rng.choice([0, FILE_SIZE])))


HARMS: list[Harm] = [cut, flip, flip, zero, zero_the_tail, lose, make_ahead]


def offsets_of(root: Path) -> list[int]:
    """The physical offsets of all messages of a log that nothing was done to."""
    found = []
    for path in sorted((root / "commitlog").iterdir()):
        data, at = path.read_bytes(), 0
        while data[at + 4 : at + 8] == MESSAGE_MAGIC_V1.to_bytes(4, "big"):
            found.append(int(path.name) + at)
            at += int.from_bytes(data[at : at + 4], "big")
    return found


def end_of_scan(log: CommitLog, start: int | None = None) -> LogEnd:
    scanner = Scanner(CONFIG, window_messages=7)
    for _ in scanner.scan(log, start):
        pass
    assert scanner.end is not None
    return scanner.end


def end_in_parts(log: CommitLog, part_size: int, folder: Path) -> LogEnd:
    folder.mkdir()
    parts = [part for task in plan_parts(log, part_size) for part in task]
    scans: list[PartScan] = []
    while parts:
        scans += [scan_part(part, CONFIG, f"{folder}/{len(scans) + n}") for n, part in enumerate(parts)]
        joined = join_parts(log, scans)
        if isinstance(joined, WholeLog):
            shutil.rmtree(folder)
            return joined.end
        parts = joined
    raise AssertionError("no part is missing, and the log is not whole")


def check(root: Path, offsets: list[int]) -> LogEnd:
    with CommitLog.of_store(str(root), file_size_bytes=FILE_SIZE) as log:
        end = end_of_scan(log)
        for size in (300, 900):
            assert end_in_parts(log, size, root / "parts") == end
        starts = [*offsets, *(file.start_offset for file in log.files)]
        from_there = [end_of_scan(log, offset) for offset in starts if log.file_of(offset) is not None]
        from_there.append(end_of_scan(log, log.files[-1].start_offset))
        looked_through = LogPass(log, CONFIG, Collector(str(root), 10**6, None), DEFAULT_ENV)
        for _ in looked_through.windows():
            pass
    report = rebuild(str(root), str(root.parent / "out"), CONFIG, sync=False)
    assert (report.end, report.end_offset) == (end.kind.value, end.offset)
    assert report.lossy or end.is_clean
    with opened(root) as store:
        scan = store.scan()
        for _ in scan:
            pass
        assert scan.end == end
        offset = store.valid_end_offset
        near = store.valid_end
        assert near.offset == offset == store.valid_end_offset
    look = overview(str(root), CONFIG)
    shown = near if look.has_consume_queues else end  # without queues all of the log is scanned for them
    assert (look.log.end, look.log.end_offset, look.log.end_reason) == (shown.kind.value, shown.offset, shown.reason)
    check_behind_damage(end, near, looked_through, from_there)
    return end


def check_behind_damage(end: LogEnd, near: LogEnd, looked_through: LogPass, from_there: list[LogEnd]) -> None:
    """Who begins behind damage finds the end that a scan from there finds; without damage it is the
    same for all."""
    assert near in [end, *from_there]
    assert looked_through.end in [end, *from_there]
    assert looked_through.end is not None
    assert looked_through.end_offset == looked_through.end.offset
    assert end.offset <= near.offset
    assert end.offset <= looked_through.end_offset
    if looked_through.end == end:
        assert near == end


@pytest.mark.parametrize("seed", cases(range(60), 4))
def test_all_who_ask_get_the_same_end(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    made = some_messages(rng)
    root = build(tmp_path / "store", made, start_offset=rng.choice([0, 0, 3 * FILE_SIZE]))
    offsets = offsets_of(root)
    for _ in range(rng.randint(0, 3)):
        files = [path for path in sorted((root / "commitlog").iterdir()) if path.stat().st_size]
        if files:
            rng.choice(HARMS)(files, rng)
    check(root, offsets)


@pytest.mark.parametrize("seed", range(20))
def test_one_file_ends_where_a_scan_of_it_ends(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    root = build(tmp_path / "store", some_messages(rng))
    files = sorted((root / "commitlog").iterdir())
    rng.choice(HARMS[:5])(files, rng)
    for path in files:
        if path.stat().st_size:
            with opened(path) as store:
                assert store.valid_end == end_of_scan(store.commit_log)


def test_the_harms_make_ends_of_every_kind(tmp_path: Path) -> None:
    kinds = set()
    for seed in range(40):
        rng = random.Random(seed)
        root = build(tmp_path / str(seed), some_messages(rng))
        rng.choice(HARMS)(sorted((root / "commitlog").iterdir()), rng)
        with CommitLog.of_store(str(root), file_size_bytes=FILE_SIZE) as log:
            kinds.add(end_of_scan(log).kind)
    assert kinds == set(EndKind) - {EndKind.CUT}  # which only a cut beside the scan makes
