"""The input of the Kafka figures: bench-CODEC-0, written by the real engine if it is available,
else by `Log`."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import kafka_peer
from benchmarks.stores import read_in_file
from logdex.kafka.columns.record_columns import read_record_batches
from logdex.kafka.log.log import Log

CODECS = ("none", "lz4", "zstd")
RECORDS, BATCH_RECORDS, VALUE_BYTES = 3_000_000, 150, 100
LOG_NAME = "00000000000000000000.log"

_START_MS = 1_700_000_000_000
_POOL = 64 * BATCH_RECORDS
"""The number of different values, as in BenchLog's own encoding."""


def ensure(data: Path, codec: str, records: int = RECORDS) -> Path:
    """The partition's directory below `data`, created if missing; its .log is read into the page
    cache."""
    partition = data / f"bench-{codec}-0"
    if not (partition / LOG_NAME).is_file():
        data.mkdir(parents=True, exist_ok=True)
        print(f"  making {partition.name}: {records} records of {VALUE_BYTES} bytes", file=sys.stderr, flush=True)
        if kafka_peer.why_missing() is None:
            kafka_peer.write_and_append(data, codec, records, repeats=1)
        else:
            with Log.open(str(partition)) as log:
                log.append_columns(own_records(records), compression=codec, batch_records=BATCH_RECORDS)
    read_in_file(partition / LOG_NAME)
    return partition


def own_records(count: int, keys: bool = False) -> pa.Table:
    """Records like BenchLog's: half text, half random bytes; with `keys`, each has its own key of
    20 bytes."""
    rng = random.Random(7)
    text = " ".join(rng.choice(("partition", "offset", "leader", "the", "of", "segment")) for _ in range(4000)).encode()
    half = VALUE_BYTES // 2
    values = [text[(at := rng.randrange(len(text) - half)) : at + half] + rng.randbytes(half) for _ in range(_POOL)]
    return _table(pa.array(values, pa.binary()), count, keys)


def records_like(partition: Path, count: int) -> pa.Table:
    """`count` records with the values of a log's first records, and increasing timestamps as
    BenchLog's."""
    log = read_record_batches(str(partition / LOG_NAME), columns=["value"])
    values = next(log).column(0)[:_POOL]
    return _table(values, count, keys=False)


def _table(pool: pa.Array, count: int, keys: bool) -> pa.Table:
    at = np.arange(count)
    columns = {
        "key": key_column(count) if keys else pa.nulls(count, pa.binary()),
        "value": pool.take(pa.array(at % len(pool))),
        "timestamp_ms": pa.array(_START_MS + at // 10),
    }
    return pa.table(columns)


def key_column(count: int, first: int = 0) -> pa.Array:
    """Keys of 20 bytes, all different, with numbers from `first` on."""
    digits = np.arange(first, first + count, dtype=np.int64)[:, None] // 10 ** np.arange(15, -1, -1) % 10
    data = np.full((count, 20), ord("k"), np.uint8)
    data[:, 4:] = digits + ord("0")
    ends = np.arange(0, 20 * count + 20, 20, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(data)], 0)
