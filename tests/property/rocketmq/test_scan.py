"""The scan kernel against its plain twin: any messages, every cut, flips anywhere, filler and zeros
behind."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdex.kernels.rocketmq import message_scan as kernel
from logdex.layout.rocketmq import BLANK, BLANK_MAGIC
from logdex.rocketmq.commit_log.commit_log import CommitLogFile
from logdex.rocketmq.message.stored_message import StoredMessage, encode_message
from logdex.rocketmq.scan.plain_scan import PlainRow, scan_plain
from logdex.rocketmq.scan.scanner import EndKind, LogEnd, Scanner
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.testing.store_builder import make_message
from logdex.testing.strategies import stored_messages
from tests.examples import examples, takes_all
from tests.plain_twins import plain_twins

DIALECTS = {
    "5.5.0": Dialect.of("5.5.0"),
    "4.9.7": Dialect.of("4.9.7"),
    "before 4.0": replace(Dialect.of("4.0.0"), prepared_in_index=False),
}
_KINDS = {
    kernel.ZEROS: EndKind.ZEROS,
    kernel.TORN: EndKind.TORN,
    kernel.BAD_MAGIC: EndKind.CORRUPT,
    kernel.BAD_SIZE: EndKind.CORRUPT,
    kernel.BAD_LENGTHS: EndKind.CORRUPT,
    kernel.BAD_CRC: EndKind.CORRUPT,
    kernel.BAD_DELAY: EndKind.CORRUPT,
}


def row_of(window: Window, scanner: Scanner, i: int) -> PlainRow:
    """The columns of message `i` of a window as a row."""
    c = window.columns
    queue = scanner.table.queues[int(c.queue[i])]
    at = int(c.position[i]) - window.data_offset
    body = at + int(c.body_at[i])
    properties = at + int(c.properties_at[i])
    return PlainRow(
        position=int(c.position[i]),
        stored_offset=int(c.stored_offset[i]),
        queue_offset=int(c.queue_offset[i]),
        store_timestamp_ms=int(c.store_timestamp_ms[i]),
        born_timestamp_ms=int(c.born_timestamp_ms[i]),
        tags_code=int(c.tags_code[i]),
        size=int(c.size[i]),
        sys_flag=int(c.sys_flag[i]),
        topic=queue.topic,
        queue_id=queue.queue_id,
        body=window.data[body : body + int(c.body_length[i])].tobytes(),
        properties=window.data[properties : properties + int(c.properties_length[i])].tobytes(),
        key_hashes=tuple(c.key_hash[int(c.key_end[i - 1]) if i else 0 : int(c.key_end[i])].tolist()),
    )


def all_rows_of(window: Window, scanner: Scanner) -> list[PlainRow]:
    """A window's columns as rows."""
    assert window.key_count == int(window.columns.key_end[window.count - 1])
    return [row_of(window, scanner, i) for i in range(window.count)]


def scan_kernel(
    path: Path, data: bytes, config: StoreConfig, *, first: int, check_crc: bool
) -> tuple[list[PlainRow], LogEnd | None]:
    """Everything that the kernel says of a file with `data`. Windows without Numba say the same."""
    path.write_bytes(data)
    answers = []
    for is_plain in (False, True):
        with plain_twins(is_plain):
            answers.append(_scan(path, data, config, first=first, check_crc=check_crc))
    (rows, columns, end), plain = answers
    assert (columns, _told(end)) == (plain[1], _told(plain[2]))
    return rows, end


def _told(end: LogEnd | None) -> object:
    return None if end is None else (replace(end, error=None), str(end.error))


def _scan(
    path: Path, data: bytes, config: StoreConfig, *, first: int, check_crc: bool
) -> tuple[list[PlainRow], list[list[list[int]]], LogEnd | None]:
    scanner = Scanner(config, check_crc=check_crc, window_messages=3)
    windows = scanner.scan_file(CommitLogFile(str(path), first, len(data)))
    rows: list[PlainRow] = []
    columns = []
    while True:
        try:
            window = next(windows)
            rows += all_rows_of(window, scanner)
            columns.append([column[: window.count].tolist() for column in window.columns])
        except StopIteration as stop:
            return rows, columns, stop.value


def check_equal(path: Path, data: bytes, version: str = "5.5.0", *, first: int = 0, check_crc: bool = True) -> int:
    """Holds kernel and twin against each other; gives the number of messages."""
    config = StoreConfig(dialect=DIALECTS[version])
    rows, end = scan_kernel(path, data, config, first=first, check_crc=check_crc)
    plain_rows, at, reason = scan_plain(data, config, first_offset=first, check_crc=check_crc)
    assert rows == plain_rows
    if reason in (kernel.LIMIT, kernel.FILE_END):
        assert end is None
    else:
        assert end is not None
        kind = _KINDS[reason]
        if kind is EndKind.CORRUPT and end.kind is EndKind.TORN:
            kind = EndKind.TORN
            assert not any(data[-3:]), "torn: the message ends in zeros, and zeros alone follow"
        assert (end.kind, end.position, end.offset) == (kind, at, first + at)
        assert (end.error is None) == (end.kind is EndKind.ZEROS)
    return len(rows)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scan") / "file"


@settings(max_examples=examples(150), deadline=None)
@given(
    messages=st.lists(stored_messages(), max_size=8),
    tail=st.sampled_from([b"", bytes(40), BLANK.pack(123, BLANK_MAGIC) + b"stale" * 9, b"\x00\x01"]),
    version=st.sampled_from(sorted(DIALECTS)),
    first=st.sampled_from([0, 1 << 40]),
    check_crc=st.booleans(),
)
def test_any_messages(
    path: Path, messages: list[StoredMessage], tail: bytes, version: str, first: int, check_crc: bool
) -> None:
    data = b"".join(map(encode_message, messages)) + tail
    check_equal(path, data, version, first=first, check_crc=check_crc)


@settings(max_examples=examples(100), deadline=None)
@given(message=stored_messages(), flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), max_size=3))
def test_flipped_bytes(path: Path, message: StoredMessage, flips: list[tuple[int, int]]) -> None:
    data = bytearray(encode_message(message) * 2)
    for place, mask in flips:
        data[place % len(data)] ^= mask
    for check_crc in (True, False):
        check_equal(path, bytes(data), check_crc=check_crc)


def test_sizes_at_the_edges(path: Path) -> None:
    data = encode_message(make_message()) * 2
    for size in (-1, 0, 90, 91, len(data) // 2, len(data), len(data) + 1, 1 << 30, (1 << 30) + 1, (1 << 31) - 1):
        check_equal(path, size.to_bytes(4, "big", signed=True) + data[4:])


def test_the_three_ways_to_end(path: Path) -> None:
    message = encode_message(make_message(properties=[(b"TAGS", b"TagA")]))
    half, flipped = message[:89].ljust(len(message), b"\0"), message[:88] + b"X" + message[89:]
    ends = []
    for data in (
        message + bytes(200),
        message + half + bytes(50),
        message + half + bytes(50) + b"x",
        message + flipped,
    ):
        _, end = scan_kernel(path, data, StoreConfig(), first=0, check_crc=True)
        assert end is not None
        assert end.position == len(message)
        ends.append(end.kind)
    assert ends == [EndKind.ZEROS, EndKind.TORN, EndKind.CORRUPT, EndKind.CORRUPT]


def test_every_cut(path: Path) -> None:
    properties = [(b"KEYS", b"a bb  ccc"), (b"UNIQ_KEY", b"0" * 32), (b"TAGS", b"TagA"), (b"DELAY", b"3")]
    data = encode_message(make_message(properties=properties)) + encode_message(make_message(b"SCHEDULE_TOPIC_XXXX"))
    counts = [check_equal(path, data[:size]) for size in range(len(data) + 1)]
    assert (counts[0], counts[-1]) == (0, 2)
    assert counts == sorted(counts)


def test_every_flip_of_every_byte_of_one_message(path: Path) -> None:
    data = encode_message(make_message(properties=[(b"KEYS", b"k-1 k-2"), (b"TAGS", b"TagA")]))
    rng = random.Random(3)
    for place in range(len(data)):
        harmed = bytearray(data)
        harmed[place] ^= rng.randrange(1, 256)
        check_equal(path, bytes(harmed))


def test_many_topics_queues_and_keys_grow_the_tables(path: Path) -> None:
    count = 900 if takes_all() else 450
    many_keys = b" ".join(b"%x" % n for n in range(4000))
    data = b"".join(
        encode_message(make_message(b"Topic-%d" % (n % 300), queue_id=n, properties=[(b"KEYS", many_keys[: n * 20])]))
        for n in range(count)
    )
    assert check_equal(path, data) == count
