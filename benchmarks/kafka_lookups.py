"""Look-ups in bulk, compared with the engine's; the key index, which the engine does not have."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import kafka_data, kafka_peer
from benchmarks.kafka_local import Row, around, row
from benchmarks.measure import Rates, judged, remove
from benchmarks.stores import read_in_file
from logdex.kafka.columns.encode_input import spans_of
from logdex.kafka.key_index import KeyIndex
from logdex.kafka.key_index.build import build_key_index, derive_key_index
from logdex.kafka.key_index.covered_log import CoveredLog
from logdex.kafka.log.log import Log
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kernels.kafka.xxh64 import hash_records

BARS = {"offsetIndexLookups": 8.0, "timeIndexLookups": None, "translateOffset": 10.0, "findOffsetByTimestamp": 5.0}
QUERIES, INDEX_CALLS = 1 << 16, 30
"""The number of queries, as in BenchLog, which repeats them."""
KEYS, HITS = 10_000_000, 1_000_000
BUILD_BAR, ENTRY_BYTES_BAR, HIT_NS_BAR = 15e6, 13.0, 1000.0


def look_ups(data: Path, repeats: int, records: int = kafka_data.RECORDS) -> list[Row]:
    """Random offsets and timestamps, chosen as in BenchLog; M look-ups/s."""
    rows = []
    for codec in kafka_data.CODECS:
        partition = kafka_data.ensure(data, codec, records)
        with LogSegment(str(partition), 0) as segment:
            ours = _look_ups(segment, codec)
            theirs = around(list(ours.values()), repeats, partial(kafka_peer.read, data, codec))
        rows += [row(each, theirs.get(f"{name}PerSecond"), 1e6, BARS[name]) for name, each in ours.items()]
    return rows


def _look_ups(segment: LogSegment, codec: str) -> dict[str, Rates]:
    random = np.random.default_rng(11)
    first, last = segment.first_batch_timestamp_ms or 0, segment.time_index.last_entry.timestamp_ms
    offsets = random.integers(0, segment.read_next_offset(), QUERIES)
    times = random.integers(first, last + 1, QUERIES)

    def again(call: Callable[[], object]) -> None:
        for _ in range(INDEX_CALLS):
            call()

    calls: dict[str, tuple[int, Callable[[], object]]] = {
        "offsetIndexLookups": (INDEX_CALLS, partial(again, partial(segment.offset_index.lookup_many, offsets))),
        "timeIndexLookups": (INDEX_CALLS, partial(again, partial(segment.time_index.lookup_many, times))),
        "translateOffset": (1, partial(segment.translate_offsets, offsets)),
        "findOffsetByTimestamp": (1, partial(segment.find_offsets_by_timestamps, times)),
    }
    return {name: Rates(f"{name} {codec}, M/s", laps * QUERIES, call) for name, (laps, call) in calls.items()}


def key_index(data: Path, repeats: int, keys: int = KEYS, records: int = kafka_data.RECORDS) -> list[Row]:
    """Hashes and indexes keys in memory; indexes a log, reading included; a million hits in one
    call."""
    column = kafka_data.key_column(keys)
    at = np.arange(keys, dtype=np.int64)

    def build() -> Any:
        hashes, offsets = np.empty(keys, np.uint64), np.empty(keys, np.uint32)
        places = spans_of(column), at.ctypes.data, keys, 0, 0, hashes.ctypes.data, offsets.ctypes.data
        hash_records(*places)
        return derive_key_index(hashes, offsets, base_offset=0, covered=CoveredLog(0, 0, 0, 0, 0))

    rates = Rates(f"key index of {keys} keys: hash and build, M entries/s", keys, build)
    rates.measure(2 * repeats)
    found = {"what": rates.what, **rates.summary(1e6)}
    rows = [judged(found, "median", rates.median / 1e6, BUILD_BAR / 1e6)]
    image = build()
    entry_bytes = len(image) / keys
    rows.append(judged({"what": "bytes an entry"}, "size", entry_bytes, ENTRY_BYTES_BAR, at_most=True))
    path = data / "bench.keyindex"
    path.write_bytes(image.data)
    with KeyIndex.open(str(path)) as index:
        index.verify()
        wanted = column.take(pa.array(np.random.default_rng(5).integers(0, keys, min(HITS, keys))))
        hit = Rates(f"key index, {len(wanted)} hits in one call, M/s", len(wanted), partial(index.lookup_many, wanted))
        hit.measure(2 * repeats)
    path.unlink()
    rows.append(judged({"what": hit.what, **hit.summary(1e6)}, "ns", 1e9 / hit.median, HIT_NS_BAR, at_most=True))
    return [*rows, _key_index_of_log(data, repeats, records)]


def _key_index_of_log(data: Path, repeats: int, records: int) -> Row:
    folder = data / "keyed-0"
    remove(folder)
    with Log.open(str(folder)) as log:
        log.append_columns(kafka_data.own_records(records, keys=True), batch_records=kafka_data.BATCH_RECORDS)
    path = folder / kafka_data.LOG_NAME
    read_in_file(path)
    rates = Rates(f"key index of a log of {records} records, M/s", records, partial(build_key_index, str(path)))
    rates.measure(2 * repeats)
    remove(folder)
    return {"what": rates.what, **rates.summary(1e6)}
