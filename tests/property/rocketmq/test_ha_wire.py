"""The bytes between master and slave: round trips, every cut, every flip, any garbage."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdex.errors import ProtocolError
from logdex.layout.rocketmq import HA_TRANSFER
from logdex.limits import HA_BODY_SIZE_BYTES_MAX
from logdex.rocketmq.files.offset_files import OFFSET_MAX
from logdex.rocketmq.ha.wire import ReportDecoder, Transfer, TransferDecoder, pack_report, pack_transfer
from tests.examples import examples

BODIES = st.lists(st.binary(max_size=40), max_size=6)
OFFSETS = st.integers(0, OFFSET_MAX - 1000)


def transfers(start: int, bodies: Iterable[bytes]) -> list[Transfer]:
    found = []
    for body in bodies:
        found.append(Transfer(start, body))
        start += len(body)
    return found


def packed(expected: Iterable[Transfer]) -> bytes:
    return b"".join(pack_transfer(*each) for each in expected)


@settings(max_examples=examples(300))
@given(OFFSETS, BODIES, st.data())
def test_round_trip_whatever_the_parts(start: int, bodies: list[bytes], data: st.DataObject) -> None:
    expected = transfers(start, bodies)
    stream, found, at = packed(expected), list[Transfer](), 0
    decoder = TransferDecoder("peer", start)
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream) - at))
        found += decoder.feed(stream[at : at + size])
        at += size
    assert found == expected
    assert decoder.next_offset == start + sum(map(len, bodies))


def test_every_cut() -> None:
    expected = transfers(4096, [b"abc", b"", b"x" * 30, b"", b"tail"])
    stream = packed(expected)
    for cut in range(len(stream) + 1):
        decoder = TransferDecoder("peer")
        before = decoder.feed(stream[:cut])
        assert before == expected[: len(before)]
        assert before + decoder.feed(stream[cut:]) == expected


def test_every_flip_of_a_header_is_refused_or_awaits_more() -> None:
    expected = transfers(4096, [b"abc", b"x" * 30, b"", b"tail"])
    stream = packed(expected)
    headers = [12 * place + sum(len(each.body) for each in expected[:place]) for place in range(len(expected))]
    for header in headers:
        for bit in range(8 * HA_TRANSFER.size_bytes):
            flipped = bytearray(stream)
            flipped[header + bit // 8] ^= 1 << bit % 8
            decoder, found = TransferDecoder("peer", 4096), list[Transfer]()
            try:
                for at in range(0, len(flipped), 5):
                    found += decoder.feed(bytes(flipped[at : at + 5]))
            except ProtocolError:
                pass
            whole = [each for each in found if each in expected]
            assert len(found) - len(whole) <= 1  # that of the flipped header itself: its size is wrong, its place not
            assert found != expected


@settings(max_examples=examples(300))
@given(st.lists(st.binary(max_size=60), max_size=8))
def test_garbage_gives_protocol_errors_alone(parts: list[bytes]) -> None:
    decoder, reports = TransferDecoder("peer"), ReportDecoder("peer")
    for part in parts:
        try:
            decoder.feed(part)
        except ProtocolError:
            break
    for part in parts:
        try:
            assert all(offset >= 0 for offset in reports.feed(part))
        except ProtocolError:
            break


@pytest.mark.parametrize(
    ("offset", "size"),
    [(0, -1), (0, HA_BODY_SIZE_BYTES_MAX + 1), (0, 2**31 - 1), (-1, 0), (-(2**63), 5), (2**63 - 1, 5), (7, 0)],
)
def test_what_no_master_sends(offset: int, size: int) -> None:
    with pytest.raises(ProtocolError, match=r"10\.0\.0\.1:10912 sent a transfer"):
        TransferDecoder("10.0.0.1:10912", 0).feed(HA_TRANSFER.pack(offset, size))


def test_the_largest_body() -> None:
    body = bytes(HA_BODY_SIZE_BYTES_MAX)
    assert TransferDecoder("peer").feed(pack_transfer(5, body)) == [Transfer(5, body)]


def test_an_offset_that_jumps() -> None:
    decoder = TransferDecoder("peer")
    assert decoder.feed(pack_transfer(100, b"abc")) == [Transfer(100, b"abc")]
    with pytest.raises(ProtocolError, match="offset 104, where 103 comes next"):
        decoder.feed(pack_transfer(104, b"d"))


@settings(max_examples=examples(100))
@given(st.lists(st.integers(0, OFFSET_MAX), max_size=8), st.integers(1, 20))
def test_reports(offsets: list[int], size: int) -> None:
    stream = b"".join(map(pack_report, offsets))
    decoder, found = ReportDecoder("peer"), list[int]()
    for at in range(0, len(stream), size):
        found += decoder.feed(stream[at : at + size])
    assert found == offsets


def test_a_negative_report() -> None:
    with pytest.raises(ProtocolError, match="reported the offset -1"):
        ReportDecoder("peer").feed(pack_report(-1))


def test_the_example_of_the_page() -> None:
    assert pack_transfer(66_509, bytes(32_768))[:12].hex(" ") == "00 00 00 00 00 01 03 cd 00 00 80 00"
    assert pack_report(66_509 + 32_768).hex(" ") == "00 00 00 00 00 01 83 cd"
