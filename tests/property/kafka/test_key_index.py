"""Key indexes against their plain twin, look-ups against a dictionary, and every kind of harm."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from logdex.errors import CorruptError, StoreError
from logdex.io.mapped.byte_array import ByteArray
from logdex.kafka.columns.encode_input import spans_of
from logdex.kafka.key_index import KeyIndex
from logdex.kafka.key_index.build import derive_key_index
from logdex.kafka.key_index.covered_log import CoveredLog
from logdex.kafka.key_index.plain import derive_plain
from logdex.kernels.kafka.xxh64 import hash_column, hash_records
from logdex.layout.kafka import KEY_INDEX_HEADER
from logdex.primitives.crc32c import crc32c
from logdex.primitives.xxh64 import xxh64
from tests.examples import cases, examples, some
from tests.plain_twins import plain_twins

Pairs = list[tuple[bytes | None, int]]
COVERED = CoveredLog(17, 3, 5, 9, 6)
KEYS = st.one_of(st.none(), st.binary(max_size=3), st.binary(max_size=80), st.sampled_from([b"hot", b"warm"]))


def derive(records: Pairs, *, base_offset: int = 0, seed: int = 0) -> ByteArray:
    keys = pa.array([None, *(key for key, _ in records)], pa.binary()).slice(1)
    offsets = np.array([base_offset + place for _, place in records], np.int64)
    hashes, places = np.empty(len(records), np.uint64), np.empty(len(records), np.uint32)
    count = hash_records(
        spans_of(keys), offsets.ctypes.data, len(records), base_offset, seed, hashes.ctypes.data, places.ctypes.data
    )
    return derive_key_index(
        hashes[:count],
        places[:count],
        base_offset=base_offset,
        covered=COVERED,
        keyless_count=len(records) - count,
        hash_seed=seed,
    )


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bytes], str]:
    path = tmp_path_factory.mktemp("key-index") / "00000000000000000000.keyindex"

    def write(data: bytes) -> str:
        path.unlink(missing_ok=True)  # an open one stays mapped
        path.write_bytes(data)
        return str(path)

    return write


@given(st.binary(max_size=200), st.integers(0, 2**64 - 1))
def test_hash_of_the_kernel_is_the_twins(key: bytes, seed: int) -> None:
    keys, hashes = pa.array([b"", key], pa.binary()), np.empty(2, np.uint64)
    hash_column(spans_of(keys), 2, np.uint64(seed), hashes.ctypes.data)
    assert hashes.tolist() == [xxh64(b"", seed), xxh64(key, seed)]


@given(st.binary(max_size=200))
def test_hash_is_the_one_of_zstd_frames(data: bytes) -> None:
    """A frame's checksum is the low half of the content's XXH64."""
    frame = zstandard.ZstdCompressor(write_checksum=True).compress(data)
    assert frame[-4:] == (xxh64(data) & 0xFFFFFFFF).to_bytes(4, "little")


def check(records: Pairs, base_offset: int, seed: int, write: Callable[[bytes], str]) -> None:
    raw = derive(records, base_offset=base_offset, seed=seed).tobytes()
    assert raw == derive_plain(records, base_offset=base_offset, covered=COVERED, hash_seed=seed)
    expected: dict[bytes, list[int]] = defaultdict(list)
    for key, place in records:
        if key is not None:
            expected[key].insert(0, base_offset + place)
    asked = [*expected, b"not there", b""]
    with KeyIndex.open(write(raw)) as index:
        index.verify()
        found = index.lookup_many(asked)
        for i, key in enumerate(asked):
            offsets = found.offsets[found.starts[i] : found.starts[i + 1]].tolist()
            assert offsets == expected.get(key, []), key  # 33 bits of hash and more: nobody meets by chance here
            passes = index.may_contain(key)
            assert passes or key not in expected
            if i < 20:
                assert index.candidates(key).tolist() == offsets
                with plain_twins(True):
                    assert index.may_contain(key) == passes
                    assert index.candidates(key).tolist() == offsets


@settings(max_examples=examples(60))
@given(
    keys=st.lists(KEYS, max_size=200),
    gaps=st.integers(1, 9),
    base_offset=st.integers(0, 2**40),
    seed=st.one_of(st.just(0), st.integers(0, 2**63 - 1)),
)
def test_file_is_the_twins(
    keys: list[bytes | None], gaps: int, base_offset: int, seed: int, write: Callable[[bytes], str]
) -> None:
    check([(key, i * gaps) for i, key in enumerate(keys)], base_offset, seed, write)


@pytest.mark.parametrize(
    ("kind", "count"),
    cases(itertools.product(["different", "one key", "few keys", "hot and different"], [8191, 8193, 30_000]), 5),
)
def test_file_is_the_twins_where_the_sort_has_parts(kind: str, count: int, write: Callable[[bytes], str]) -> None:
    numbers = np.random.default_rng(count).integers(0, 2**40, count)
    numbers = {
        "different": numbers,
        "one key": numbers * 0,
        "few keys": numbers % 7,
        "hot and different": np.where(numbers % 2, numbers, 1),
    }[kind]
    check([(b"k%d" % number, i) for i, number in enumerate(numbers)], 5, 0, write)


def small() -> bytes:
    return derive([(b"k%d" % (i % 90), i) for i in range(700)]).tobytes()


def test_every_cut_is_an_error(write: Callable[[bytes], str]) -> None:
    raw = small()
    for size in [*range(200), *range(200, len(raw), 37), len(raw) - 1]:
        with pytest.raises(CorruptError) as caught:
            KeyIndex.open(write(raw[:size]))
        assert caught.value.position <= size
    with pytest.raises(CorruptError, match="after the end"):
        KeyIndex.open(write(raw + b"\0"))


def test_every_flip_is_an_error_and_never_an_answer(write: Callable[[bytes], str]) -> None:
    raw = small()
    keys = [b"k%d" % i for i in range(95)]
    with KeyIndex.open(write(raw)) as index:
        right = [part.tolist() for part in index.lookup_many(keys)]
    for at in some(range(len(raw)), 3):
        harmed = bytearray(raw)
        harmed[at] ^= 1 << at % 8
        with pytest.raises(StoreError) as caught, KeyIndex.open(write(bytes(harmed))) as index:
            index.verify()
        assert isinstance(caught.value, CorruptError)
        assert caught.value.position <= at
        assert at < 64 or at - caught.value.position < 4096
        if at >= 64 and at % 11 == 0:
            try:
                with KeyIndex.open(write(bytes(harmed))) as index:
                    answers = [part.tolist() for part in index.lookup_many(keys)]
                assert answers == right  # the damage was in the filter's block only, which many keys do not ask
            except CorruptError:
                pass


def test_the_plain_twin_meets_the_same_damage(write: Callable[[bytes], str]) -> None:
    raw = small()

    def answers(path: str, is_plain: bool) -> list[object]:
        found: list[object] = []
        for number in range(95):
            try:
                with plain_twins(is_plain), KeyIndex.open(path) as index:
                    found.append(index.candidates(b"k%d" % number).tolist())
            except CorruptError as error:
                found.append((error.message, error.position))
        return found

    for at in some(range(64, len(raw), 97), 9):
        harmed = bytearray(raw)
        harmed[at] ^= 1 << at % 8
        path = write(bytes(harmed))
        assert answers(path, is_plain=True) == answers(path, is_plain=False)


@pytest.mark.parametrize("is_plain", [False, True])
def test_damage_is_found_where_it_is_touched(is_plain: bool, write: Callable[[bytes], str]) -> None:
    """A key whose blocks are whole is answered; the others' are errors that name the block."""
    raw = bytearray(derive([(b"k%d" % i, i) for i in range(20_000)]).tobytes())
    raw[-500] ^= 4  # among the last entries
    with plain_twins(is_plain), KeyIndex.open(write(bytes(raw))) as index:
        answered, positions = 0, []
        for i in range(0, 20_000, 97):
            try:
                assert index.candidates(b"k%d" % i).tolist() == [i]
                answered += 1
            except CorruptError as error:
                positions.append(error.position)
        assert answered > 10 * len(positions) > 0
        assert min(positions) > len(raw) - 10_000
        assert max(positions) < len(raw) - 500


@settings(max_examples=examples(300))
@given(at=st.integers(0, 63), harm=st.binary(min_size=1, max_size=8))
def test_any_header_with_a_right_checksum(at: int, harm: bytes, write: Callable[[bytes], str]) -> None:
    """Crafted headers: an error, or an index that answers without leaving its file."""
    raw = bytearray(small())
    raw[at : at + len(harm)] = harm
    head = bytes(raw[: KEY_INDEX_HEADER.size_bytes - 4])
    raw[KEY_INDEX_HEADER.size_bytes - 4 : KEY_INDEX_HEADER.size_bytes] = crc32c(head).to_bytes(4, "big")
    try:
        with KeyIndex.open(write(bytes(raw))) as index:
            index.lookup_many([b"k%d" % i for i in range(95)])
    except StoreError:
        pass


def test_fan_out_beyond_the_entries_is_an_error(write: Callable[[bytes], str]) -> None:
    """Checksums that are right over a table that is wrong."""
    raw = bytearray(derive([(b"a", 0), (b"b", 1)]).tobytes())
    body = slice(64, len(raw) - 4)
    raw[64 + 64 : 64 + 64 + 12] = b"\x7f" * 12
    raw[-4:] = crc32c(bytes(raw[body])).to_bytes(4, "big")
    raw[56:60] = crc32c(bytes(raw[-4:])).to_bytes(4, "big")
    raw[60:64] = crc32c(bytes(raw[:60])).to_bytes(4, "big")
    with KeyIndex.open(write(bytes(raw))) as index, pytest.raises(CorruptError):
        index.lookup_many([b"a", b"b"])
