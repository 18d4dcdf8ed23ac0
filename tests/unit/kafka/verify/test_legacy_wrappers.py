"""A wrapper of magic 0 or 1 whose records begin before the end of what precedes it, which its
header does not show."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.kafka.batch.batch_writer import encode_batch, with_base_offset
from logdex.kafka.batch.record import Compression, Record
from logdex.kafka.log.log import Log
from logdex.kafka.verify import verify


def wrapper(base_offset: int, magic: int) -> bytes:
    records = [Record(b"k", b"%d" % number, 1_700_000_000_000 if magic else -1) for number in range(3)]
    return encode_batch(records, base_offset=base_offset, compression=Compression.GZIP, magic=magic)


def findings(tmp_path: Path, base_offset: int, *wrappers: bytes) -> list[tuple[str, int, str, str]]:
    path = tmp_path / "events-0"
    path.mkdir()
    (path / f"{base_offset:020d}.log").write_bytes(b"".join(wrappers))
    with Log.open(path, retention_ms=-1):
        pass  # derives the indexes
    return [(each.check, each.position, each.expected, each.found) for each in verify(path).findings]


@pytest.mark.parametrize("magic", [0, 1])
def test_wrappers_that_follow_one_another(tmp_path: Path, magic: int) -> None:
    assert findings(tmp_path, 0, wrapper(0, magic), wrapper(3, magic), wrapper(10, 1), wrapper(13, 2)) == []


@pytest.mark.parametrize("magic", [0, 1])
def test_offsets_that_the_batch_before_has_too(tmp_path: Path, magic: int) -> None:
    first, second = wrapper(0, magic), with_base_offset(wrapper(2, magic), 4)
    assert findings(tmp_path, 0, first, second, wrapper(5, magic)) == [("batch-records", len(first), "at least 3", "2")]


def test_offsets_below_the_name_of_the_segment(tmp_path: Path) -> None:
    assert findings(tmp_path, 5, wrapper(3, 1)) == [("batch-records", 0, "at least 5", "3")]
