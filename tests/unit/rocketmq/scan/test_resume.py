"""Where reading goes on behind damage: what the damaged message says, what chains prove, what
queues name."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import numpy as np
import pytest

from logdex.layout.rocketmq import BLANK, BLANK_MAGIC, MESSAGE_MAGIC_V1
from logdex.rocketmq.message.stored_message import StoredMessage, encode_message
from logdex.rocketmq.scan import resume
from logdex.rocketmq.scan.log_bytes import LogBytes
from logdex.rocketmq.scan.resume import find_behind, find_first
from logdex.testing.store_builder import make_message

START = 1 << 32
"""Physical offset of the file's first byte."""
FILE_SIZE = 8192


def bytes_of(data: bytes | bytearray) -> LogBytes:
    return LogBytes(np.frombuffer(bytes(data), np.uint8), START)


def message_at(at: int, body: bytes = b"a body") -> bytes:
    message = make_message(body=body, properties=[(b"KEYS", b"k")])
    return encode_message(replace(message, physical_offset=START + at))


def log_of(bodies: list[bytes], *, filler: bool = False) -> tuple[bytearray, list[int]]:
    """A file with these bodies in messages, and where the messages begin; the last is where the
    next one would."""
    data, starts = bytearray(), []
    for body in bodies:
        starts.append(len(data))
        data += message_at(len(data), body)
    starts.append(len(data))
    if filler:
        data += BLANK.pack(FILE_SIZE - len(data), BLANK_MAGIC)
    return data.ljust(FILE_SIZE, b"\0"), starts


BODIES = [random.Random(n).randbytes(50 + 7 * n) for n in range(9)]


@pytest.mark.parametrize("filler", [False, True])
def test_one_lost_head_after_the_other(filler: bool) -> None:
    data, starts = log_of(BODIES, filler=filler)
    for lost in range(len(BODIES)):
        data[starts[lost] : starts[lost] + 60] = b"\x07" * 60
        following = starts[lost + 1]
        is_last = lost == len(BODIES) - 1
        assert find_behind(bytes_of(data), starts[lost]) == (None if is_last and not filler else following)


def test_damage_that_the_messages_tell_the_ends_of_is_no_obstacle_to_a_chain() -> None:
    data, starts = log_of(BODIES)
    data[starts[1] : starts[1] + 60] = bytes(60)
    for number, place in ((3, 0), (4, 5), (5, 90), (7, 84)):  # size, magic, body, body's length
        data[starts[number] + place] ^= 0xFF
    assert find_behind(bytes_of(data), starts[1]) == starts[2]
    assert find_behind(bytes_of(data), starts[3]) == starts[5], "its head is whole"
    assert find_behind(bytes_of(data), starts[4]) == starts[5]
    assert find_behind(bytes_of(data), starts[5]) == starts[6]


def test_what_lies_between_two_lost_heads_is_proven_by_queues_alone() -> None:
    data, starts = log_of(BODIES)
    for lost in (2, 6):
        data[starts[lost] : starts[lost] + 60] = b"\x07" * 60
    assert find_behind(bytes_of(data), starts[2]) == starts[7], "a chain that breaks off may lie in a body"

    def named(offset: int, message: StoredMessage) -> bool | None:
        return True if offset == START + starts[4] else None

    assert find_behind(bytes_of(data), starts[2], named) == starts[4]
    assert find_behind(bytes_of(data), starts[2], lambda offset, message: offset == START + starts[3]) == starts[3]
    assert find_behind(bytes_of(data), starts[2], lambda offset, message: False) is None
    assert find_behind(bytes_of(data), starts[2], lambda offset, message: None) == starts[7]


def test_old_bytes_behind_a_filler_leave_it_open() -> None:
    """A broker that recovered may leave messages of before behind a filler. With the head of a
    message before it lost, nothing tells which of the two fillers is the log's."""
    data, starts = log_of(BODIES, filler=True)
    old = message_at(starts[-1] + 40, b"old")
    behind = starts[-1] + 40 + len(old)
    data[starts[-1] + 40 : behind] = old
    data[behind : behind + 8] = BLANK.pack(FILE_SIZE - behind, BLANK_MAGIC)
    assert find_behind(bytes_of(data), 0) == starts[1], "the message itself says where it ends"
    data[0:60] = bytes(60)
    assert find_behind(bytes_of(data), 0) is None
    assert find_behind(bytes_of(data), 0, lambda offset, message: offset == START + starts[3]) == starts[3]


def test_a_message_that_names_another_place_is_met_where_the_one_before_it_surely_ends() -> None:
    data, starts = log_of(BODIES)
    data[starts[1] + 90] ^= 1
    data[starts[2] + 30] ^= 1
    assert find_behind(bytes_of(data), starts[1]) == starts[2]
    data[starts[1] + 4] ^= 1
    data[starts[1]] ^= 1
    assert find_behind(bytes_of(data), starts[1]) == starts[3]


def test_a_chain_as_long_as_the_longest_message_proves_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    data, starts = log_of(BODIES)
    for lost in (1, 8):
        data[starts[lost] : starts[lost] + 60] = b"\x07" * 60
    assert find_behind(bytes_of(data), starts[1]) is None
    monkeypatch.setattr(resume, "REACH_BYTES", 600)
    assert find_behind(bytes_of(data), starts[1]) == starts[2]


@pytest.mark.parametrize("begin", range(0, 1600, 37))
def test_the_first_message_of_a_part(begin: int) -> None:
    data, starts = log_of(BODIES, filler=True)
    wanted = min(start for start in starts if start >= begin)
    assert find_first(bytes_of(data), begin, FILE_SIZE) == wanted
    assert find_first(bytes_of(data), begin, wanted) is None
    assert find_first(bytes_of(data), begin, wanted + 1) == wanted


@pytest.mark.parametrize("size", [0, 1, 7, 8, 12, 90, 91])
def test_files_too_short_for_anything(size: int) -> None:
    for fill in (b"\0", b"\xda", MESSAGE_MAGIC_V1.to_bytes(4, "big")):
        data = bytes_of((fill * 100)[:size])
        assert find_first(data, 0, size) is None
        assert list(data.starts(0, size)) == []
        if size:
            assert find_behind(data, 0) is None


def test_any_bytes_are_answered() -> None:
    chance = random.Random(1)
    data, starts = log_of(BODIES, filler=True)
    for _ in range(300):
        harmed = bytearray(data)
        for _ in range(chance.randint(1, 30)):
            at = chance.randrange(len(harmed))
            harmed[at : at + 4] = chance.choice([chance.randbytes(4), bytes(harmed[4:8]), b"\xff" * 4, bytes(4)])
        at = chance.choice(starts)
        found = find_behind(bytes_of(harmed), at)
        assert found is None or found in starts[starts.index(at) + 1 :]


def test_a_body_full_of_beginnings_takes_no_time() -> None:
    """Each of them leads through all that are behind it, and out of the body."""
    body_at, count = 88, 12_000
    end = body_at + 100 * count + 20
    body = bytearray()
    for number in range(count):
        at = body_at + 100 * number
        head = message_at(at, b"x" * 4)[:96]
        body += (100).to_bytes(4, "big") + head[4:] + b"-" * 4
    target = end + len(message_at(0)) + 100
    last = body_at + 100 * (count - 1)
    body[-100:-96] = (target - last).to_bytes(4, "big")
    data = bytearray(message_at(0, bytes(body) + b"-" * 13))
    starts = []
    while len(data) < target + 2000:
        starts.append(len(data))
        data += message_at(len(data))
    data[0:60] = bytes(60)
    began = time.process_time()
    find_behind(LogBytes(np.frombuffer(bytes(data) + bytes(1000), np.uint8), START), 0)
    assert time.process_time() - began < 10
