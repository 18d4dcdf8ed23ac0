"""Harmed segment files: every cut and many flips end in a typed error, or in an answer that can be
right.

What a look-up may answer with a harmed .index or .timeindex is what the log's headers say from the
position on that the entry names: a batch that is there. Recovery looks at no index and must give
the same bytes whatever they hold.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logdex.errors import CorruptError
from logdex.kafka.batch.record import Compression
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.segment.segment_recovery import derive_segment
from logdex.kafka.settings.log_config import LogConfig
from tests.examples import some
from tests.unit.kafka.segment.segments import append, batch

BASE = 1000
CONFIG = LogConfig(index_interval_bytes=100, segment_index_bytes=240)
FLIPS = 400
SEED = 20261121
QUERIES = range(BASE - 2, BASE + 40, 3)
TIMES = range(4990, 5220, 17)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a small segment with all kinds of batches, by suffix."""
    path = tmp_path_factory.mktemp("whole")
    with LogSegment(str(path), BASE, CONFIG, writable=True) as segment:
        for k, offset in enumerate(range(BASE, BASE + 36, 3)):
            codec = Compression.LZ4 if k % 3 == 1 else Compression.NONE
            append(segment, batch(offset, *(5000 + 5 * (offset - BASE + d) for d in range(3)), compression=codec))
        segment.on_become_inactive()
    return {file.suffix: file.read_bytes() for file in path.iterdir()}


def harms(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """Every cut, then flips."""
    for size in range(len(data)):
        yield data[:size]
    for _ in range(FLIPS):
        harmed = bytearray(data)
        harmed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        yield bytes(harmed)


def attempt(call: Callable[..., Any], *arguments: Any) -> tuple[Any, CorruptError | None]:
    """(what a call gives, None), or (None, its error); any other error fails the test."""
    try:
        return call(*arguments), None
    except CorruptError as error:
        return None, error


def place(path: Path, files: dict[str, bytes]) -> None:
    for suffix, data in files.items():
        (path / f"{BASE:020}{suffix}").write_bytes(data)


def positions(log: bytes) -> dict[int, int]:
    """Size by position of the batches of a whole log."""
    found, at = {}, 0
    while at < len(log):
        found[at] = int.from_bytes(log[at + 8 : at + 12], "big") + 12
        at += found[at]
    return found


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_harmed_index_never_shows_what_is_not_there(whole: dict[str, bytes], tmp_path: Path, suffix: str) -> None:
    log, batches = whole[".log"], positions(whole[".log"])
    place(tmp_path, whole)
    derived = derive_segment(str(tmp_path / f"{BASE:020}.log"), BASE, 100)
    refused = 0
    for harmed in harms(whole[suffix], random.Random(SEED)):
        (tmp_path / f"{BASE:020}{suffix}").write_bytes(harmed)
        with LogSegment(str(tmp_path), BASE, CONFIG) as segment:
            for offset in QUERIES:
                found, error = attempt(segment.translate_offset, offset)
                if found is not None:
                    assert batches[found.position] == found.size_bytes
                    last = found.offset + int.from_bytes(log[found.position + 23 : found.position + 27], "big")
                    assert last >= offset
                assert error is None or error.path.startswith(str(tmp_path))
                refused += error is not None
            for time in TIMES:
                record, error = attempt(segment.find_offset_by_timestamp, time)
                assert record is None or (record.timestamp_ms == 5000 + 5 * (record.offset - BASE) >= time)
                refused += error is not None
            check_bulk(segment)
            refused += attempt(segment.offset_index.sanity_check)[1] is not None
            refused += attempt(segment.time_index.sanity_check)[1] is not None
    assert refused > 0
    again = derive_segment(str(tmp_path / f"{BASE:020}.log"), BASE, 100)
    assert (again.offset_index, again.time_index) == (derived.offset_index, derived.time_index)
    assert (derived.offset_index, derived.time_index) == (whole[".index"], whole[".timeindex"])


def check_bulk(segment: LogSegment) -> None:
    """In bulk the log's headers answer, not the indexes: as if nothing were harmed."""
    rows = segment.translate_offsets(np.array([BASE + 7] * 20 + [BASE + 99]))
    assert rows[:20, 0].tolist() == [BASE + 6] * 20
    assert rows[20, 1] == -1


def test_a_harmed_log_is_cut_where_the_harm_is(whole: dict[str, bytes], tmp_path: Path) -> None:
    log, starts = whole[".log"], sorted(positions(whole[".log"]))
    path = tmp_path / f"{BASE:020}.log"
    unharmed = 0
    for harmed in harms(log, random.Random(SEED + 1)):
        path.write_bytes(harmed)
        derived, error = attempt(derive_segment, str(path), BASE, 100)
        if error is not None:  # offsets lie outside of the checksum: out of reach, or they fall
            assert error.path == str(path)
            continue
        differs = next((k for k in range(len(harmed)) if harmed[k] != log[k]), len(harmed))
        of_batch = max(start for start in starts if start <= differs) if differs < len(log) else len(log)
        if derived.size_bytes != of_batch:
            # base offset and leader epoch are not covered by the checksum: the batch is taken as it
            # is
            assert derived.size_bytes == len(log)
            assert differs - of_batch < 8 or 12 <= differs - of_batch < 16
            unharmed += 1
        assert derived.truncated_bytes == len(harmed) - derived.size_bytes
    assert 0 < unharmed < FLIPS


def test_lookups_in_a_harmed_log(whole: dict[str, bytes], tmp_path: Path) -> None:
    place(tmp_path, whole)
    errors = 0
    for harmed in some(list(harms(whole[".log"], random.Random(SEED + 2))), 3):
        (tmp_path / f"{BASE:020}.log").write_bytes(harmed)
        with LogSegment(str(tmp_path), BASE, CONFIG) as segment:
            for call, queries in (
                (segment.translate_offset, (BASE, BASE + 17, BASE + 35)),
                (segment.find_offset_by_timestamp, (5000, 5090, 5175)),
                (segment.translate_offsets, ([BASE, BASE + 35],)),
                (segment.find_offsets_by_timestamps, ([5090],)),
            ):
                for query in queries:
                    _, error = attempt(call, query)
                    assert error is None or error.position <= len(harmed)
                    errors += error is not None
            errors += attempt(segment.read_next_offset)[1] is not None
    assert errors > 0
