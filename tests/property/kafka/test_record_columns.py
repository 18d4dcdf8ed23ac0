"""The decode kernel against the scalar records: every codec and magic, headers, nulls, gaps, harm
of every kind."""

from __future__ import annotations

import ctypes
import mmap
import random
import struct
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdex.errors import CorruptError, UsageError
from logdex.kafka.batch import compression
from logdex.kafka.batch.record import Compression, Record
from logdex.kafka.batch.record_batch import decode_batch
from logdex.kafka.columns import record_decoder
from logdex.kafka.columns.record_columns import RECORD_COLUMNS, read_record_batches, record_schema
from logdex.kafka.columns.record_window import records_to_batch
from logdex.kafka.scan.scanner import EndKind, ScanEnd
from logdex.kernels.common.libraries import address_of
from logdex.kernels.kafka import decompress as codec_functions
from tests.examples import examples, some
from tests.plain_twins import plain_twins
from tests.unit.kafka.batch.batch_bytes import batch, find_whole_batch, legacy, record

_BYTES = st.none() | st.binary(max_size=6) | st.binary(min_size=30, max_size=200)
_HEADERS = st.lists(st.tuples(st.binary(max_size=4), st.none() | st.binary(max_size=70)), max_size=3)
_CODECS = st.sampled_from([0, 0, 1, 2, 3, 3, 4, 4])

SCHEMA = record_schema()


@st.composite
def payloads(draw: st.DrawFn) -> tuple[bytes, int]:
    """Plain records, and how many."""
    count = draw(st.integers(0, 6))
    parts, delta = [], 0
    for _ in range(count):
        time = draw(st.integers(-100, 100) | st.integers(-(1 << 63), (1 << 63) - 1))
        parts.append(record(delta, time, draw(_BYTES), draw(_BYTES), draw(_HEADERS) if draw(st.booleans()) else ()))
        delta += draw(st.integers(1, 3) | st.integers(1, 1 << 20))
    return b"".join(parts), count


def packed(payload: bytes, codec: int) -> bytes:
    return compression.compress(Compression(codec), payload)


@st.composite
def good_batches(draw: st.DrawFn) -> bytes:
    """A batch of any magic, codec and kind that is as it should be."""
    codec = draw(_CODECS)
    if draw(st.integers(0, 4)) == 0:
        return draw(legacy_batches(codec % 4))
    payload, count = draw(payloads())
    kind = draw(st.sampled_from([0, 8, 16, 32, 48, 64]))
    return batch(
        packed(payload, codec),
        count,
        base_offset=draw(st.integers(0, 1 << 50)),
        attributes=codec | kind,
        base_ms=draw(st.integers(-1, 1 << 42)),
        producer=draw(st.sampled_from([(-1, -1, -1), (7, 3, 100), (1 << 40, 32767, (1 << 31) - 2)])),
        leader_epoch=draw(st.integers(-1, 9)),
    )


@st.composite
def legacy_batches(draw: st.DrawFn, codec: int) -> bytes:
    """A message of magic 0 or 1, or a wrapper."""
    magic = draw(st.integers(0, 1))
    if codec == 0:
        return legacy(magic, draw(st.integers(0, 99)), draw(_BYTES), draw(_BYTES), ms=draw(st.integers(-1, 99)))
    inner = b"".join(legacy(magic, i, draw(_BYTES), draw(_BYTES), ms=i) for i in range(draw(st.integers(1, 3))))
    value = compression.compress(Compression(codec), inner, magic=magic)
    appended = draw(st.sampled_from([0, 8])) if magic else 0
    return legacy(magic, draw(st.integers(5, 99)), None, value, attributes=codec | appended, ms=77)


@st.composite
def odd_batches(draw: st.DrawFn) -> bytes:
    """A batch with a right checksum whose records are not: flipped, cut, or counted wrong."""
    payload, count = draw(payloads())
    harmed = bytearray(payload)
    for _ in range(draw(st.integers(0, 2))):
        if harmed:
            harmed[draw(st.integers(0, len(harmed) - 1))] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    del harmed[draw(st.integers(0, len(harmed)) | st.just(len(harmed))) :]
    harmed += draw(st.sampled_from([b"", b"", b"\0", b"\xff" * 12, b"\x80" * 5]))
    codec = draw(_CODECS)
    stored = bytearray(packed(bytes(harmed), codec))
    if codec and stored and draw(st.booleans()):
        stored[draw(st.integers(0, len(stored) - 1))] ^= draw(st.integers(1, 255))
    wrong = draw(st.sampled_from([count, count, count + 1, -1, 0, (1 << 31) - 1]))
    return batch(bytes(stored), wrong, attributes=draw(st.sampled_from([codec, codec, 5, codec | 32])))


def scalar(data: bytes, *, skip_control: bool = False) -> tuple[list[Record], int]:
    """The records of all batches that are right, and how many are not."""
    rows: list[Record] = []
    position = bad = 0
    while position < len(data):
        found, size = decode_batch(data, position)
        position += size
        if skip_control and found.is_control:
            continue
        try:
            rows += list(found.records())
        except CorruptError:
            bad += 1
    return rows, bad


def table(batches: Iterator[pa.RecordBatch], schema: pa.Schema = SCHEMA) -> pa.Table:
    found = list(batches)
    for each in found:
        each.validate(full=True)
        assert each.num_rows
    return pa.Table.from_batches(found, schema=schema)


def expected(rows: list[Record], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_batches([records_to_batch(rows, schema)] if rows else [], schema=schema)


@pytest.mark.parametrize("is_plain", [False, True])
@settings(max_examples=examples(120), deadline=None)
@given(st.lists(good_batches(), max_size=6), st.booleans(), st.sampled_from([1, 1 << 13, 1 << 22]), st.booleans())
def test_columns_are_those_of_the_records(
    is_plain: bool, parts: list[bytes], skip_control: bool, window_bytes: int, check_crc: bool
) -> None:
    data = b"".join(parts)
    rows, bad = scalar(data, skip_control=skip_control)
    with plain_twins(is_plain):
        found = table(
            read_record_batches(data, skip_control=skip_control, window_bytes=window_bytes, check_crc=check_crc)
        )
    assert bad == 0
    assert found.to_pylist() == expected(rows).to_pylist()
    assert found.equals(expected(rows))


@pytest.mark.parametrize("is_plain", [False, True])
@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.one_of(good_batches(), odd_batches()), max_size=5), st.booleans())
def test_what_the_scalar_refuses_is_refused(is_plain: bool, parts: list[bytes], skip_control: bool) -> None:
    data = b"".join(parts)
    rows, bad = scalar(data, skip_control=skip_control)
    errors: list[CorruptError] = []
    with plain_twins(is_plain):
        found = table(read_record_batches(data, skip_control=skip_control, on_bad_batch=errors.append))
    assert len(errors) == bad
    assert found.equals(expected(rows))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(good_batches(), max_size=4), st.lists(st.sampled_from(RECORD_COLUMNS), unique=True, min_size=1))
def test_only_the_columns_that_are_wanted(parts: list[bytes], names: list[str]) -> None:
    data = b"".join(parts)
    schema = pa.schema([SCHEMA.field(name) for name in names])
    found = table(read_record_batches(data, skip_control=False, columns=names), schema)
    assert found.equals(expected(scalar(data)[0], schema))


@settings(max_examples=30, deadline=None)
@given(st.lists(good_batches(), max_size=3))
def test_without_the_libraries_functions_all_is_the_same(parts: list[bytes]) -> None:
    class Missing:
        lz4_function = zstd_function = zstd_context = 0

    data = b"".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_decoder, "Decompressors", Missing)
        found = table(read_record_batches(data, skip_control=False))
    assert found.equals(expected(scalar(data)[0]))


def test_the_libraries_functions_are_there() -> None:
    there = codec_functions.Decompressors()
    assert there.lz4_function, "lz4's wheel exports it: without it LZ4 goes batch by batch through Python"
    assert there.zstd_function


@pytest.mark.parametrize("module", codec_functions._ZSTD_MODULES)
def test_each_zstd_library_reads_the_same(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library = codec_functions._zstd_library_of(module)
    if library is None:
        pytest.skip(f"no {module} with zstd's functions here")
    payload = b"".join(record(i, 0, None, random.Random(i).randbytes(40) + b"text, text, text" * i) for i in range(99))
    data = batch(packed(payload, 4), 99, attributes=4)
    monkeypatch.setattr(codec_functions, "_zstd_library", lambda: library)
    monkeypatch.setattr(record_decoder.RecordDecoder, "_give", None)
    assert table(read_record_batches(data)).equals(expected(scalar(data)[0]))


def test_the_fastest_zstd_library_goes_first() -> None:
    if sys.version_info < (3, 14):
        assert codec_functions._zstd_library() is not None
        first = codec_functions._zstd_library_of(codec_functions._ZSTD_MODULES[0])
        assert first is not None
        assert address_of(first.ZSTD_decompressDCtx) == codec_functions.Decompressors().zstd_function


@pytest.mark.parametrize("before", range(10))
@pytest.mark.parametrize("whole", [2, 7, 8, 9, 17])
def test_nulls_of_a_batch_that_is_given_up_are_forgotten(before: int, whole: int) -> None:
    def rows(count: int, nulls: int) -> bytes:
        return b"".join(record(i, 0, *((None, b"v") if i % 3 == nulls else (b"k", None))) for i in range(count))

    data = batch(rows(before, 0), before) if before else b""
    data += batch(rows(whole, 1) + b"\x02", whole + 1, base_offset=20)  # its last record ends too early
    data += batch(rows(19, 2), 19, base_offset=50)
    errors: list[CorruptError] = []
    found = table(read_record_batches(data, on_bad_batch=errors.append))
    assert len(errors) == 1
    assert found.equals(expected(scalar(data)[0]))
    found.validate(full=True)
    assert found.num_rows == before + 19


def long_log() -> bytes:
    """Batches of every codec, and one of each magic."""
    rows = b"".join(record(i, i, b"k%d" % i, b"v" * i, [(b"h", None)]) for i in range(9))
    parts = [batch(packed(rows, codec), 9, base_offset=9 * codec, attributes=codec) for codec in range(5)]
    return b"".join([*parts, legacy(0, 50, b"k", b"v"), legacy(1, 51, b"k", None)])


def test_every_cut_gives_the_records_before_it() -> None:
    data = long_log()
    whole = table(read_record_batches(data)).to_pylist()
    for cut in some(range(len(data)), 3):
        batches = read_record_batches(data[:cut])
        found: list[Any] = []
        while True:
            try:
                found += next(batches).to_pylist()
            except StopIteration as stopped:
                end: ScanEnd = stopped.value
                break
        assert end.kind in (EndKind.END, EndKind.TORN)
        assert found == whole[: len(found)]


def test_flips_are_typed_errors_or_change_nothing_that_is_checked() -> None:
    data, chance = long_log(), random.Random(4)
    for _ in range(examples(2000)):
        harmed = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            harmed[chance.randrange(len(data))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        for check_crc in (True, False):
            errors: list[CorruptError] = []
            table(read_record_batches(bytes(harmed), check_crc=check_crc, on_bad_batch=errors.append))
            assert all(0 <= error.position < len(data) for error in errors)


def test_a_bad_batch_is_an_error_behind_the_records_before_it() -> None:
    good = batch(record(0, 0, b"k", b"v"), 1)
    bad = batch(b"\x01" * 40, 1)
    batches = read_record_batches(good + bad + good, path="some.log")
    assert next(batches).num_rows == 1
    with pytest.raises(CorruptError, match=r"some\.log: byte \d+: a record is malformed") as caught:
        next(batches)
    assert caught.value.position == len(good) + 61
    errors: list[CorruptError] = []
    assert table(read_record_batches(good + bad + good, on_bad_batch=errors.append)).num_rows == 2
    assert len(errors) == 1


def test_behind_a_wrong_checksum_or_length_reading_goes_on_at_the_next_batch() -> None:
    good = batch(record(0, 0, b"k", b"v"), 1)
    for at, value in ((30, 0xEE), (8, 0x7F), (16, 9), (11, 3)):
        harmed = bytearray(good)
        harmed[at] = value
        errors: list[CorruptError] = []
        data = good + bytes(harmed) + good
        assert table(read_record_batches(data, on_bad_batch=errors.append)).num_rows == 2
        assert [len(good) <= error.position < 2 * len(good) for error in errors] == [True]


def test_batches_larger_than_a_window_and_more_headers_than_expected() -> None:
    headers = [(b"a", b"1"), (b"", None)] * 3000
    rows = [record(i, 0, b"k" * 3000, b"v" * 70_000, headers if i % 7 == 3 else ()) for i in range(40)]
    data = b"".join(batch(packed(b"".join(rows), codec), 40, attributes=codec) for codec in range(5))
    found = table(read_record_batches(data, window_bytes=1 << 16))
    assert found.equals(expected(scalar(data)[0]))


def test_many_small_records_and_bombs_stay_within_bounds() -> None:
    small = batch(record(0, 0, None, None) * 100_000, 100_000)
    assert table(read_record_batches(small, window_bytes=1 << 12)).num_rows == 100_000
    for size in (1 << 20, 1 << 17):  # the kernel has room for the smaller one
        bomb = record(0, 0, None, bytes(size))
        for codec in (1, 2, 3, 4):
            data = batch(packed(bomb, codec), 1, attributes=codec)
            with pytest.raises(CorruptError, match="too large when decompressed"):
                list(read_record_batches(data, decompressed_size_bytes_max=size // 2))
            assert table(read_record_batches(data)).num_rows == 1


def test_nothing_is_read_behind_the_bytes_given() -> None:
    """The bytes end where memory that cannot be read begins: one byte too far ends the process."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 4 * page)
    array = np.frombuffer(memory, np.uint8)
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(array.ctypes.data + 3 * page), ctypes.c_size_t(page), 0) == 0
    rows = record(0, 0, b"k", b"v", [(b"h", b"x")]) * 3
    logs = [batch(packed(rows, codec), 3, attributes=codec) for codec in range(5)]
    logs += [batch(rows[:cut], 3) for cut in range(len(rows))]
    logs += [legacy(0, 1, b"k", b"v"), legacy(1, 1, b"k", b"v"), batch(b"", 0), batch(b"\x80" * 12, 1, attributes=32)]
    for log in logs:
        for end in some(range(len(log)), 3, first=len(log)):
            data = array[3 * page - len(log) + end : 3 * page]
            data[:] = np.frombuffer(log[: len(log) - end], np.uint8)
            errors: list[CorruptError] = []
            table(read_record_batches(data, on_bad_batch=errors.append, skip_control=False))
            find_whole_batch(data)
    assert libc.mprotect(ctypes.c_void_p(array.ctypes.data + 3 * page), ctypes.c_size_t(page), 3) == 0


def test_messages_of_old_formats_come_in_windows_too() -> None:
    data = b"".join(legacy(1, i, None, bytes(1000)) for i in range(40)) + batch(record(0, 0, None, b"v"), 1)
    found = list(read_record_batches(data, window_bytes=1 << 12))
    assert [each.num_rows for each in found] == [4] * 10 + [1]
    assert table(iter(found)).equals(expected(scalar(data)[0]))


def test_unknown_columns_are_named() -> None:
    with pytest.raises(UsageError, match="no column 'topic'"):
        next(read_record_batches(b"", columns=["topic"]))


def test_a_count_that_no_bytes_hold_allocates_nothing() -> None:
    raw = bytearray(batch(record(0, 0, b"k", b"v"), 1))
    raw[57:61] = struct.pack(">i", (1 << 31) - 1)
    with pytest.raises(CorruptError, match="2147483647 records"):
        list(read_record_batches(bytes(raw), check_crc=False))
