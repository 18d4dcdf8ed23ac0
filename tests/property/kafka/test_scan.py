"""The batch scan kernel against its plain twin: batches of every magic, cuts, flips anywhere, zeros
behind."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdex.kafka.scan.plain_scan import find_next_plain, scan_plain
from logdex.kafka.scan.scanner import BatchScanner, BatchWindow, EndKind, ScanEnd
from logdex.kernels.common.crc32c import crc32c, crc32c_function_address, crc32c_table, crc_sources
from logdex.kernels.kafka import batch_scan as kernel
from logdex.primitives.crc32c import crc32c_by_table
from tests.examples import examples
from tests.plain_twins import plain_twins
from tests.unit.kafka.batch.batch_bytes import batch, find_whole_batch, legacy, record, sized, varint

_KINDS = {
    kernel.FILE_END: EndKind.END,
    kernel.TORN: EndKind.TORN,
    kernel.BAD_MAGIC: EndKind.CORRUPT,
    kernel.BAD_SIZE: EndKind.CORRUPT,
    kernel.BAD_CRC: EndKind.CORRUPT,
}
_INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
_OFFSETS = st.integers(0, 1 << 40) | _INT64
_BYTES = st.none() | st.binary(max_size=20)


@st.composite
def control_payloads(draw: st.DrawFn) -> bytes:
    """A control record, or something that was to be one."""
    kind = draw(st.sampled_from([0, 1, 2, 5, -1]))
    key = b"\0\0" + kind.to_bytes(2, "big", signed=True)
    value = b"\0\0" + draw(st.binary(min_size=4, max_size=4))
    good = record(0, draw(st.integers(-5, 5) | _INT64), key, value)
    return draw(st.sampled_from([good, good[: draw(st.integers(0, len(good)))], b"\xff" * 12, varint(0) + sized(key)]))


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """A whole batch of any magic."""
    magic = draw(st.sampled_from([0, 1, 2, 2, 2]))
    if magic < 2:
        attributes = draw(st.sampled_from([0, 0, 1, 2, 3, 8] if magic else [0, 0, 1, 3]))
        return legacy(magic, draw(_OFFSETS), draw(_BYTES), draw(_BYTES), attributes=attributes, ms=draw(_INT64))
    control = draw(st.booleans())
    return batch(
        draw(control_payloads()) if control else draw(st.binary(max_size=40)),
        draw(st.integers(-1, 3)),
        base_offset=draw(_OFFSETS),
        last_delta=draw(st.integers(-1, 5) | st.just((1 << 31) - 1)),
        attributes=draw(st.sampled_from([0x20, 0x30, 0x28, 0x21] if control else [0, 1, 3, 4, 8, 16, 64])),
        base_ms=draw(_INT64),
        max_ms=draw(_INT64),
        producer=(draw(_INT64), draw(st.integers(-1, 32767)), draw(st.integers(-1, (1 << 31) - 1))),
        leader_epoch=draw(st.integers(-1, 5)),
    )


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Batches one after the other, cut, flipped, followed by zeros or by rubbish, or as they should
    be."""
    data = bytearray(b"".join(draw(st.lists(batches(), max_size=5))))
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] ^= draw(st.integers(1, 255))
    if draw(st.booleans()):
        del data[draw(st.integers(0, len(data))) :]
    return bytes(data) + draw(st.sampled_from([b"", b"", b"\0" * 5, b"\0" * 40, b"\x01" * 30, b"\xff" * 30]))


def scan(data: bytes, *, check_crc: bool = True, window: int = 2) -> tuple[list[tuple[int, ...]], ScanEnd]:
    """Rows and end, by the kernel. A scan without Numba says the same."""
    by_kernel, plain = (_scan(data, check_crc, window, is_plain) for is_plain in (False, True))
    assert plain[0] == by_kernel[0]
    assert replace(plain[1], error=None) == replace(by_kernel[1], error=None)
    assert str(plain[1].error) == str(by_kernel[1].error)
    return by_kernel


def _scan(data: bytes, check_crc: bool, window: int, is_plain: bool) -> tuple[list[tuple[int, ...]], ScanEnd]:
    rows: list[tuple[int, ...]] = []
    windows = BatchScanner(check_crc, window_batches=window).scan_bytes(data)
    with plain_twins(is_plain):
        while True:
            try:
                rows.extend(rows_of(next(windows)))
            except StopIteration as stopped:
                end: ScanEnd = stopped.value
                return rows, end


def rows_of(window: BatchWindow) -> list[tuple[int, ...]]:
    """A window's columns as rows."""
    assert all(column.size == window.count for column in window.columns)
    return list(zip(*(column.tolist() for column in window.columns), strict=True))


@settings(max_examples=examples(300), deadline=None)
@given(logs(), st.booleans())
def test_the_kernel_and_the_plain_scan_agree(data: bytes, check_crc: bool) -> None:
    expected, position, reason = scan_plain(data, check_crc=check_crc)
    rows, end = scan(data, check_crc=check_crc)
    assert rows == expected
    assert end.position == position
    zeros = reason == kernel.BAD_SIZE and not any(data[position:])
    assert end.kind == (EndKind.ZEROS if zeros else _KINDS[reason])
    if end.kind is EndKind.END:
        assert end.error is None
    else:
        assert end.error is not None
        assert position <= end.error.position <= position + 16


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=60), logs(), st.integers(-1, 80))
def test_the_next_batch_behind_damage_is_found_alike(before: bytes, data: bytes, position: int) -> None:
    assert find_whole_batch(before + data, position) == find_next_plain(before + data, position)


def test_every_cut_of_a_log_ends_at_a_batch() -> None:
    parts = [legacy(0, 1, b"k", None), legacy(1, 2, None, b"v"), batch(record(0, 0, b"a", b"b"), 1, base_offset=3)]
    data = b"".join(parts)
    ends = [0, len(parts[0]), len(parts[0]) + len(parts[1]), len(data)]
    for cut in range(len(data) + 1):
        rows, end = scan(data[:cut])
        whole = max(place for place in ends if place <= cut)
        assert end.position == whole
        assert len(rows) == ends.index(whole)
        assert end.kind == (EndKind.END if cut == whole else EndKind.TORN)


def test_the_error_says_field_expected_and_found(tmp_path: Path) -> None:
    good = batch(record(0, 0, None, b"x"), 1)
    flipped = bytearray(good)
    flipped[-1] ^= 1
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(good + flipped + good)
    windows = BatchScanner().scan_file(str(path))
    assert next(windows).count == 1
    with pytest.raises(StopIteration) as stopped:
        next(windows)
    end = stopped.value.value
    assert end.kind is EndKind.CORRUPT
    assert end.error.path == str(path)
    assert end.error.position == len(good)
    assert f"expected {crc32c_by_table(good[21:]):#010x} as stored" in end.reason
    assert f"found {crc32c_by_table(bytes(flipped[21:])):#010x}" in end.reason
    assert find_whole_batch(path.read_bytes(), end.position) == 2 * len(good)


def test_a_scan_stops_where_it_is_told() -> None:
    good = batch(record(0, 0, None, b"x"), 1)
    windows = BatchScanner().scan_bytes(good * 5, len(good), len(good) + 1)
    assert rows_of(next(windows))[0][0] == len(good)
    with pytest.raises(StopIteration) as stopped:
        next(windows)
    assert stopped.value.value == ScanEnd(EndKind.END, 2 * len(good), "the scan was to stop here")


def test_bytes_made_to_look_like_large_batches_everywhere_cost_little() -> None:
    head = batch(b"", 0, last_delta=0)
    lying = (head[:8] + (1 << 21).to_bytes(4, "big") + head[12:]) * (1 << 16)
    began = time.process_time()
    assert find_whole_batch(lying + head, 0) == len(lying)
    assert time.process_time() - began < 2, "unbounded it is 100 GB of checksums"


@settings(deadline=None)
@given(st.binary(max_size=300), st.integers(0, 7))
def test_crc32c_by_address_and_by_table_agree(data: bytes, skip: int) -> None:
    array = np.frombuffer(bytes(skip) + data + b"\0", np.uint8)
    at, table = array.ctypes.data + skip, crc32c_table().ctypes.data
    assert crc32c(0, table, at, len(data)) == crc32c_by_table(data)
    assert crc32c(crc32c_function_address(), table, at, len(data)) == crc32c_by_table(data)


def test_the_vectorised_function_is_there() -> None:
    assert crc32c_function_address() != 0, "isal is a dependency: without its function a scan is five times slower"
    assert crc_sources().crc32_function != 0
