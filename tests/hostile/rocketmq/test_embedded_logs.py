"""CommitLog bytes inside bodies: whatever is damaged around them, nobody takes them for messages of
the log, and the messages behind the damage are found."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from logdex.errors import MissingFileError
from logdex.io.env import DEFAULT_ENV
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.rebuild.parts import scan_part
from logdex.rocketmq.scan.scan_part import ScanPart
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from logdex.rocketmq.verify.checks import Collector
from logdex.rocketmq.verify.log_scan import LogPass
from tests.examples import cases, some, takes_all
from tests.hostile.rocketmq.embedded import (
    BODY_SIZE,
    CONFIG,
    EMBEDDINGS,
    FILE_SIZE,
    HEAD_SIZE,
    Embedding,
    Log,
    build_log,
    ending_with_it,
    filler,
    nothing,
    overreaching,
    row_with_filler,
    spanning,
)
from tests.unit.rocketmq.rebuild.test_job import check

AMBIGUOUS = (spanning, overreaching, ending_with_it, filler, row_with_filler)
"""With these a head that is lost altogether may take further messages with it, where no
ConsumeQueue is asked."""


def with_queues(log: Log) -> list[object]:
    from logdex.rocketmq.consume_queue.named_messages import NamedMessages

    return [NamedMessages(str(log.root), CONFIG, DEFAULT_ENV)]


def read_behind_damage(log: Log, *named: object) -> list[int]:
    """Physical offsets of the messages that verify reads."""
    found = []
    with CommitLog.of_store(str(log.root), file_size_bytes=FILE_SIZE) as commit_log:
        out = Collector(str(log.root), 10**6, None)
        for window in LogPass(commit_log, CONFIG, out, DEFAULT_ENV, *named).windows():  # type: ignore[arg-type]
            assert isinstance(window, Window)
            found += window.columns.position[: window.count].tolist()
    return found


def read_in_order(log: Log) -> list[int]:
    """Physical offsets of the messages that a scan reads."""
    scanner, found = Scanner(CONFIG), []
    with CommitLog.of_store(str(log.root), file_size_bytes=FILE_SIZE) as commit_log:
        for window in scanner.scan(commit_log):
            found += window.columns.position[: window.count].tolist()
    return found


def flips(log: Log, holder: int) -> Iterator[tuple[int, int]]:
    """(physical offset, mask): each byte of the head, some of the body, all behind it but the
    properties' text."""
    start, behind = log.offsets[holder], HEAD_SIZE + BODY_SIZE
    for at in [*range(HEAD_SIZE), HEAD_SIZE, HEAD_SIZE + 450, behind - 1, *range(behind, behind + 12)]:
        for mask in (0x01, 0x80, 0xFF):
            yield start + at, mask


def check_flip(log: Log, holder: int, offset: int, mask: int) -> None:
    """One byte of a message: all others are read, nothing else is."""
    old = log.byte(offset)
    log.change(offset, bytes([old ^ mask]))
    damaged = log.offsets[holder]
    for named in ([], with_queues(log)):
        found = read_behind_damage(log, *named)
        assert [at for at in log.offsets if at != damaged] == [at for at in found if at != damaged]
    found = read_in_order(log)
    assert found in (log.offsets, log.offsets[:holder])
    log.change(offset, bytes([old]))


SLOW_HOLDERS = [pytest.param(*each, marks=pytest.mark.slow) for each in ((3, True), (6, False), (13, False))]


@pytest.mark.parametrize("embedding", EMBEDDINGS)
@pytest.mark.parametrize(("holder", "wide"), [(0, False), (13, True), *SLOW_HOLDERS])
def test_one_harmed_byte(embedding: Embedding, holder: int, wide: bool, tmp_path: Path) -> None:
    log = build_log(tmp_path / "store", embedding, wide=wide)
    assert read_behind_damage(log) == read_in_order(log) == log.offsets
    assert holder in log.holders
    heads = (0, 1, 2, 3, 4, 85, 86, 87)
    for place, (offset, mask) in enumerate(flips(log, holder)):
        is_chosen = takes_all() and place % 21 == (holder + wide) % 21
        if is_chosen or offset - log.offsets[holder] in some(heads, 3, first=holder):
            check_flip(log, holder, offset, mask)


@pytest.mark.slow
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_every_harmed_byte(embedding: Embedding, wide: bool, tmp_path: Path) -> None:
    log = build_log(tmp_path / "store", embedding, wide=wide)
    for holder in log.holders:
        for offset, mask in flips(log, holder):
            check_flip(log, holder, offset, mask)


@pytest.mark.parametrize("embedding", EMBEDDINGS)
@pytest.mark.parametrize(
    ("size", "filled_with"), cases(itertools.product([8, 48, HEAD_SIZE, HEAD_SIZE + 300], ["zeros", "garbage"]), 3)
)
def test_a_lost_head(embedding: Embedding, size: int, filled_with: str, tmp_path: Path) -> None:
    log = build_log(tmp_path / "store", embedding)
    for holder in log.holders:
        start = log.offsets[holder]
        old = log.path_of(start)[0].read_bytes()
        log.change(start, bytes(size) if filled_with == "zeros" else random.Random(holder).randbytes(size))
        real = [at for at in log.offsets if at != start]
        assert read_behind_damage(log, *with_queues(log)) == real
        found = read_behind_damage(log)
        if embedding is not ending_with_it:
            assert set(found) <= set(real)
        if embedding not in AMBIGUOUS:
            assert found == real
        log.path_of(start)[0].write_bytes(old)


@pytest.mark.parametrize("embedding", cases(EMBEDDINGS, 2))
def test_torn_in_the_last_message(embedding: Embedding, tmp_path: Path) -> None:
    """The file ends inside the message, or turns to zeros there."""
    log = build_log(tmp_path / "store", embedding)
    path, start = log.path_of(log.offsets[-1])
    data = path.read_bytes()
    in_properties = log.sizes[-1] - len(b"KEYS\1key-23\2TAGS\1TagA\2")  # zeros there are not noticed
    for written in some(range(1, in_properties, 13), 5):
        for torn in (data[: start + written], data[: start + written].ljust(FILE_SIZE, b"\0")):
            path.write_bytes(torn)
            for named in ([], with_queues(log)):
                assert read_behind_damage(log, *named) == log.offsets[:-1]
            assert read_in_order(log) == log.offsets[:-1]


@pytest.mark.parametrize("seed", cases(range(6), 6))
def test_several_harms_at_once(seed: int, tmp_path: Path) -> None:
    """Nothing that is no message of the log is read, however many messages are damaged."""
    rng = random.Random(seed)
    for number, embedding in enumerate(EMBEDDINGS):
        log = build_log(tmp_path / str(number), embedding)
        files = {path: path.read_bytes() for path, _ in map(log.path_of, log.offsets)}
        for _ in range(12):
            for _ in range(rng.randint(2, 5)):
                holder = rng.choice(log.offsets)
                at = holder + rng.randrange(HEAD_SIZE + 350)
                log.change(at, rng.randbytes(rng.choice([1, 1, 4, 30])))
            assert set(read_behind_damage(log, *with_queues(log))) <= set(log.offsets)
            if embedding is not ending_with_it:
                assert set(read_behind_damage(log)) <= set(log.offsets)
            for path, data in files.items():
                path.write_bytes(data)


@pytest.mark.parametrize("embedding", cases(EMBEDDINGS, 2))
def test_parts_that_begin_inside_such_bodies(embedding: Embedding, tmp_path: Path) -> None:
    """A part begins with a message of the log, wherever it is cut off."""
    log = build_log(tmp_path / "store", embedding)
    with CommitLog.of_store(str(log.root), file_size_bytes=FILE_SIZE) as commit_log:
        file = commit_log.files[0]
        ends = [log.offsets[6] + log.sizes[6]]  # where the filler is
        for begin in range(1, FILE_SIZE, 53):
            scan = scan_part(ScanPart(file, begin, FILE_SIZE, found=False), CONFIG, str(tmp_path / f"part-{begin}"))
            real = [at for at in [*log.offsets, *ends] if begin <= at < FILE_SIZE]
            if embedding is nothing:
                assert scan.first == (real[0] if real else -1)
            elif embedding is not ending_with_it:
                assert scan.first in [*real, -1]


@pytest.mark.parametrize("embedding", EMBEDDINGS)
@pytest.mark.parametrize("part_size", cases([700, 150, 3000], 3))
def test_rebuilds_in_parts_are_as_in_one(embedding: Embedding, part_size: int, tmp_path: Path) -> None:
    log = build_log(tmp_path / "store", embedding)
    assert check(log.root, tmp_path, CONFIG, part_size).messages == len(log.offsets)
    rng = random.Random(part_size)
    for number, holder in enumerate(rng.sample(log.holders, 3)):
        offset, mask = rng.choice(list(flips(log, holder)))
        old = log.byte(offset)
        log.change(offset, bytes([old ^ mask]))
        folder = tmp_path / str(number)
        assert check(log.root, folder, CONFIG, part_size).messages in (holder, len(log.offsets))
        log.change(offset, bytes([old]))


@pytest.mark.parametrize("embedding", cases(EMBEDDINGS, 2))
def test_queries_and_reports_know_nothing_of_them(embedding: Embedding, tmp_path: Path) -> None:
    log = build_log(tmp_path / "store", embedding)
    for path in (log.root / "index").iterdir():
        path.unlink()
    for holder in log.holders:
        offset, mask = log.offsets[holder] + 4, 0x10
        log.change(offset, bytes([log.byte(offset) ^ mask]))
        with StoreSnapshot(str(log.root), config=CONFIG) as store:
            with suppress(MissingFileError):  # there is no such topic
                assert store.query_message("Inner", "inner", scan_missing=True).messages == ()
            found = store.query_message("TopicA", "key-10", scan_missing=True).messages
            assert [message.physical_offset for message in found] == ([0] if holder else [])
            assert store.valid_end_offset in [*log.offsets, log.offsets[-1] + log.sizes[-1]]
        report = verify(str(log.root), CONFIG, checks=["message-magic", "message-physical-offset"])
        assert [(finding.check, finding.position) for finding in report.findings] == [
            ("message-magic", offset % FILE_SIZE)
        ]
        assert report.messages == len(log.offsets) - 1
        log.change(offset, bytes([log.byte(offset) ^ mask]))
