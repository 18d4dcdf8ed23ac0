"""Messages at known places against their plain twins: the pick kernel, the match kernel, and parts
read by blocks."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdex.layout.rocketmq import BLANK, BLANK_MAGIC
from logdex.rocketmq.commit_log.commit_log import CommitLogFile
from logdex.rocketmq.message.properties import TAGS, parse_properties
from logdex.rocketmq.message.stored_message import StoredMessage, encode_message
from logdex.rocketmq.read.parts.row_filter import RowFilter
from logdex.rocketmq.read.read_filter import ReadFilter
from logdex.rocketmq.scan import scanner as scanner_module
from logdex.rocketmq.scan.plain_scan import PlainRow, pick_plain
from logdex.rocketmq.scan.scanner import LogEnd, Scanner
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.testing.store_builder import make_message, write_commit_log
from logdex.testing.strategies import stored_messages
from tests.examples import examples
from tests.plain_twins import plain_twins
from tests.property.rocketmq.test_scan import row_of

MESSAGES = st.lists(stored_messages(), max_size=8)
CONFIG = StoreConfig()


def encoded(messages: list[StoredMessage]) -> tuple[bytes, list[tuple[int, int]]]:
    """The messages one behind the other, and where each begins, with its size."""
    data, places = b"", []
    for message in messages:
        one = encode_message(message)
        places.append((len(data), len(one)))
        data += one
    return data, places


@settings(max_examples=examples(100), deadline=None)
@given(MESSAGES, st.integers(0, 1 << 32), st.booleans())
def test_picked_messages_are_those_of_the_twin(messages: list[StoredMessage], seed: int, check_crc: bool) -> None:
    chance = Random(seed)
    data, found = encoded(messages)
    harmed = bytearray(data)
    if chance.random() < 0.5 and data:
        harmed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    wrong = [(chance.randrange(len(data) + 1), 91), (0, 5), (max(len(data) - 3, 0), 100)]
    picked = [*found, chance.choice(wrong)] if chance.random() < 0.5 else found
    chance.shuffle(picked)
    places = [(at, size, (1 << 40) + 1000 * number) for number, (at, size) in enumerate(picked)]
    columns = np.array(places, np.int64).reshape(-1, 3)
    window_messages = chance.choice((3, 16))
    for is_plain in (False, True):
        scanner = Scanner(CONFIG, window_messages=window_messages)
        rows: list[PlainRow] = []
        good = True
        while good and len(rows) < len(places):
            at, size, offset = columns[len(rows) :].T
            file, bytes_there = CommitLogFile("x", 0, len(data)), np.frombuffer(bytes(harmed), np.uint8)
            with plain_twins(is_plain):
                window, good = scanner.pick(file, bytes_there, at, offset, size, check_crc=check_crc)
            rows += picked_rows(window, scanner)
        assert (rows, good) == pick_plain(bytes(harmed), places, CONFIG, check_crc=check_crc)


def picked_rows(window: Window, scanner: Scanner) -> list[PlainRow]:
    """A window's columns as rows: those of `row_of`, with the bytes of each message found by its
    place."""
    rows = []
    offsets = window.columns.position[: window.count].tolist()
    for i, place in enumerate(window.places(np.arange(window.count)).tolist()):
        window.data_offset = offsets[i] - place
        rows.append(row_of(window, scanner, i))
    return rows


@settings(max_examples=examples(100), deadline=None)
@given(MESSAGES, st.sets(st.sampled_from([b"", b"a", b"A", b"ab", b"\xff"]) | st.binary(max_size=4), min_size=1))
def test_tags_are_matched_as_by_the_twin(messages: list[StoredMessage], tags: set[bytes]) -> None:
    raws = [message.properties_raw for message in messages]
    tags |= {parse_properties(raw)[TAGS] for raw in raws[:2] if TAGS in parse_properties(raw)}
    data, places = encoded(messages)
    at, size = np.array(places, np.int64).reshape(-1, 2).T
    scanner = Scanner(CONFIG, check_crc=False)
    file = CommitLogFile("x", 0, len(data))
    window, good = scanner.pick(file, np.frombuffer(data, np.uint8), at, at, size, check_crc=False)
    rows = RowFilter(ReadFilter(tags=frozenset(tags)), scanner.table).rows(window)
    has_tag = [row for row, raw in enumerate(raws[: window.count]) if parse_properties(raw).get(TAGS) in tags]
    assert rows.tolist() == has_tag
    assert good or window.count < len(messages)


TAILS = [b"", bytes(40), bytes(700), bytes(60) + b"x" * 9, BLANK.pack(123, BLANK_MAGIC) + b"stale" * 9, b"x" * 90]
"""What may be behind the messages: zeros, a hole, a filler, what is no message."""


def drained(
    windows: Generator[Window, None, LogEnd | None], scanner: Scanner
) -> tuple[list[PlainRow], LogEnd | None, int]:
    rows: list[PlainRow] = []
    while True:
        try:
            window = next(windows)
        except StopIteration as stop:
            return rows, stop.value, scanner.stopped_at
        rows += [row_of(window, scanner, i) for i in range(window.count)]


@settings(max_examples=examples(100), deadline=None)
@given(
    MESSAGES,
    st.sampled_from(
        [
            b"",
            bytes(40),
            bytes(700),
            bytes(60) + b"x" * 9,
            BLANK.pack(123, BLANK_MAGIC) + b"stale" * 9,
            b"\x00\x01",
            b"x" * 90,
        ]
    ),
    st.integers(0, 1 << 32),
    st.sampled_from([8, 50, 91, 300, 1 << 16]),
)
def test_parts_read_by_blocks_are_those_of_the_mapped_file(
    tmp_path_factory: pytest.TempPathFactory, messages: list[StoredMessage], tail: bytes, seed: int, block_bytes: int
) -> None:
    chance = Random(seed)
    data, places = encoded(messages)
    path = tmp_path_factory.getbasetemp() / "part"
    path.write_bytes((data + tail)[: chance.choice((None, len(data) - 1, len(data) // 2))])
    file = CommitLogFile(str(path), 1 << 30, path.stat().st_size)
    begins = [at for at, _ in places if at <= file.size_bytes] or [0]
    start, stop = chance.choice(begins), chance.randrange(file.size_bytes + 1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scanner_module, "PART_BLOCK_BYTES", block_bytes)
        patched.setattr(scanner_module, "PART_BLOCK_BYTES_MAX", 2 * block_bytes)
        answers = []
        for by_blocks in (True, False):
            scanner = Scanner(CONFIG, window_messages=3)
            scan = scanner.scan_part if by_blocks else scanner.scan_file
            answers.append(drained(scan(file, start, max(start, stop)), scanner))
    assert answers[0] == answers[1]


def test_a_message_of_many_blocks_is_read_whole(tmp_path: Path) -> None:
    messages = [make_message(body=bytes([n]) * 300_000) for n in range(1, 6)]
    write_commit_log(str(tmp_path), messages, 1 << 21)
    path = tmp_path / "commitlog" / f"{0:020d}"
    scanner = Scanner(CONFIG)
    windows = scanner.scan_part(CommitLogFile(str(path), 0, 1 << 21), 0, 1 << 21)
    assert sum(window.count for window in windows) == 5
