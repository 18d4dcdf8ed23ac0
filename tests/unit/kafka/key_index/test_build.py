"""Key indexes built from logs: real ones of every codec and age, harmed ones, other files."""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from logdex.errors import CorruptError, NotAStoreError, StorageError, UnreadableError, UsageError
from logdex.kafka.batch.batch_writer import encode_batch, encode_end_marker
from logdex.kafka.batch.record import Compression, Record
from logdex.kafka.columns.record_columns import read_record_batches
from logdex.kafka.files.file_names import parse_offset_file
from logdex.kafka.key_index import KeyIndex
from logdex.kafka.key_index.build import build_key_index, fan_out_bits, filter_blocks
from tests.examples import cases
from tests.golden import kafka as golden_kafka

BASE = 4000


def write_log(folder: Path, *batches: bytes) -> Path:
    path = folder / f"{BASE:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


def batch(offset: int, *keys: bytes | None, codec: Compression = Compression.NONE) -> bytes:
    records = [Record(key=key, value=b"v", timestamp_ms=1) for key in keys]
    return encode_batch(records, base_offset=offset, compression=codec)


def index_of(log: Path) -> KeyIndex:
    target = log.with_suffix(".keyindex")
    target.write_bytes(build_key_index(str(log)).tobytes())
    return KeyIndex.open(str(target))


@pytest.mark.needs_shared
@pytest.mark.parametrize("name", cases(golden_kafka.NAMES, 4))
def test_every_key_of_real_logs_is_found(name: str, tmp_path: Path) -> None:
    for log in sorted(golden_kafka.unpack(name, tmp_path).rglob("*.log")):
        if parse_offset_file(log.name) is None:
            continue
        expected: dict[bytes, list[int]] = defaultdict(list)
        keyless = 0
        try:
            for part in read_record_batches(str(log), columns=("offset", "key")):
                for offset, key in zip(*(column.to_pylist() for column in part.columns), strict=True):
                    if key is None:
                        keyless += 1
                    else:
                        expected[key].insert(0, offset)
        except CorruptError as error:
            with pytest.raises(CorruptError, match=f"byte {error.position}: "):
                build_key_index(str(log))
            continue
        with index_of(log) as index:
            assert index.header.keyless_count == keyless
            assert index.header.key_count == len(expected)
            for key, offsets in expected.items():
                assert index.candidates(key).tolist() == offsets
            assert index.covers(str(log)) == index.header.log_size


def test_null_keys_and_control_records_are_left_out(tmp_path: Path) -> None:
    marker = encode_end_marker(
        True, producer_id=1, producer_epoch=0, coordinator_epoch=0, offset=BASE + 4, timestamp_ms=1
    )
    log = write_log(tmp_path, batch(BASE, b"a", None, b"", b"a"), marker, batch(BASE + 9, b"a", codec=Compression.LZ4))
    with index_of(log) as index:
        assert index.base_offset == BASE
        assert index.candidates(b"a").tolist() == [BASE + 9, BASE + 3, BASE]
        assert index.candidates(b"").tolist() == [BASE + 2]
        assert (index.header.entry_count, index.header.key_count, index.header.keyless_count) == (4, 2, 1)
        found = index.lookup_many(pa.array([b"zz", b"", b"a"]))
        assert found.starts.tolist() == [0, 0, 1, 4]
        assert index.lookup_many(pa.array(["b", "a"])).starts.tolist() == [0, 0, 3]
        with pytest.raises(UsageError, match="null"):
            index.lookup_many(pa.array([b"a", None]))


def test_a_log_without_keys_has_an_index_without_entries(tmp_path: Path) -> None:
    for batches in ((), (batch(BASE, None, None),)):
        with index_of(write_log(tmp_path, *batches)) as index:
            index.verify()
            assert not index.may_contain(b"")
            assert index.candidates(b"k").size == 0
            assert index.lookup_many([b"k", b""]).starts.tolist() == [0, 0, 0]


def test_covers_what_it_was_built_from(tmp_path: Path) -> None:
    first, second = batch(BASE, b"a", b"b"), batch(BASE + 2, b"c")
    log = write_log(tmp_path, first, second)
    with index_of(log) as index:
        whole = len(first + second)
        assert index.covers(str(log)) == whole
        write_log(tmp_path, first, second, batch(BASE + 3, b"d"))
        assert index.covers(str(log)) == whole  # the rest is to be scanned
        write_log(tmp_path, first)
        assert index.covers(str(log)) == 0
        write_log(tmp_path, first, batch(BASE + 2, b"x"))
        assert index.covers(str(log)) == 0


def test_a_torn_end_is_not_covered(tmp_path: Path) -> None:
    first, second = batch(BASE, b"a"), batch(BASE + 1, b"b")
    with index_of(write_log(tmp_path, first, second[:-3])) as index:
        assert index.header.log_size == len(first)
        assert index.candidates(b"b").size == 0


def test_what_is_no_segment_is_refused(tmp_path: Path) -> None:
    log = write_log(tmp_path, batch(BASE, b"a"))
    with pytest.raises(NotAStoreError):
        build_key_index(str(log.rename(tmp_path / "some.log")))
    with pytest.raises(StorageError):
        build_key_index(str(log))
    for offset in (BASE - 1, BASE + (1 << 31)):
        with pytest.raises(CorruptError, match="base_offset"):
            build_key_index(str(write_log(tmp_path, batch(offset, b"a"))))
    assert build_key_index(str(write_log(tmp_path, batch(BASE + (1 << 31) - 1, b"a")))).size


def test_sizes_grow_with_the_entries() -> None:
    assert [fan_out_bits(count) for count in (0, 1, 31, 32, 63, 64, 10_000_000, (1 << 31) - 1)] == [
        *(1, 1, 1, 2, 2, 3, 20, 22)
    ]
    assert [filter_blocks(count) for count in (0, 1, 127, 128, 6400)] == [0, 1, 1, 2, 100]


def test_a_file_that_is_truncated_after_its_blocks_were_checked(tmp_path: Path) -> None:
    keys = [b"key-%d" % number for number in range(40)]
    log = write_log(tmp_path, batch(BASE, *keys))
    with index_of(log) as index:
        size = index.header.file_size
    for cut in range(0, size, 3):
        with index_of(log) as index:
            before = [index.candidates(key).tolist() for key in keys]
            os.truncate(index.path, cut)
            for key in keys:
                with pytest.raises(UnreadableError):
                    index.candidates(key)
                with suppress(UnreadableError):
                    assert index.may_contain(key)
            with pytest.raises(UnreadableError):
                index.lookup_many(keys)
        assert all(before)
