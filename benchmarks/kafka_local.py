"""Recovery, decoding and appending, compared with Kafka's own classes: the same partition, one
thread each, one run.

Logdex runs before and after the engine. The ratio is that of the medians; the engine's is of its
warm rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import kafka_data, kafka_peer
from benchmarks.measure import Rates, judged, remove
from logdex.kafka.batch.record import Compression
from logdex.kafka.columns.encode_columns import EncodedBatches, iter_encoded
from logdex.kafka.columns.record_columns import read_record_batches
from logdex.kafka.log.log import Log
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.segment.segment_recovery import recover
from logdex.kafka.settings.log_config import LogConfig

Row = dict[str, Any]
Engine = Callable[[], dict[str, float]]

APPENDED = 750_000
"""Records per round: BenchLog's number."""
RECOVER_BAR = 3.0
DECODE_BARS = {"none": 1.3, "lz4": 1.6, "zstd": 2.0}
APPEND_BARS = {"none": 2.5, "lz4": 1.6, "zstd": 1.6}


def around(ours: list[Rates], repeats: int, engine: Engine) -> dict[str, float]:
    """Measures Logdex, runs the engine, measures Logdex again; returns the engine's figures, empty
    without an engine."""
    for rates in ours:
        rates.measure(repeats)
    if kafka_peer.why_missing() is not None:
        return {}
    theirs = engine()
    for rates in ours:
        rates.measure(repeats)
    return theirs


def row(ours: Rates, theirs: float | None, unit: float, bar: float | None) -> Row:
    """A row of the table: rates in `unit`, the engine's rate `theirs`, the ratio and the bar."""
    found: Row = {"what": ours.what, **ours.summary(unit)}
    if theirs is not None:
        found |= {"engine": round(theirs / unit, 3), "ratio": round(ours.median / theirs, 2)}
        if bar is not None:
            found = judged(found, "ratio", found["ratio"], bar)
    return found


def recovery(data: Path, repeats: int, records: int = kafka_data.RECORDS) -> list[Row]:
    """Maps, scans, verifies CRCs, derives both indexes and writes them to new files; GB/s."""
    rows = []
    for codec in kafka_data.CODECS:
        output = data / "recovered"
        ours = recovery_rates(kafka_data.ensure(data, codec, records), codec, output)
        theirs = around([ours], repeats, partial(kafka_peer.read, data, codec)).get("recoverMBPerSecond")
        rows.append(row(ours, None if theirs is None else theirs * 1e6, 1e9, RECOVER_BAR))
        remove(output)
    return rows


def recovery_rates(partition: Path, codec: str, output: Path) -> Rates:
    """Log bytes per second; both indexes are written below `output`, each time to new files."""

    def fresh() -> None:
        remove(output)
        output.mkdir()

    call = partial(recover, str(partition), 0, LogConfig(), output=str(output))
    return Rates(f"recover {codec}, GB/s", (partition / kafka_data.LOG_NAME).stat().st_size, call, fresh)


def decoding(data: Path, repeats: int, records: int = kafka_data.RECORDS) -> list[Row]:
    """Decodes records to Arrow columns offset, timestamp, key and value; M records/s.

    Measured with CRC and without (as the engine does).
    """
    rows = []
    for codec in kafka_data.CODECS:
        partition = kafka_data.ensure(data, codec, records)
        ours = [decoding_rates(partition, codec, check_crc=check) for check in (True, False)]
        theirs = around(ours, repeats, partial(kafka_peer.read, data, codec)).get("decodeRecordsPerSecond")
        rows += [row(each, theirs, 1e6, DECODE_BARS[codec]) for each in ours]
    return rows


def decoding_rates(partition: Path, codec: str, *, check_crc: bool) -> Rates:
    """Records per second."""
    log = str(partition / kafka_data.LOG_NAME)
    name = f"decode {codec}{', CRC checked' if check_crc else ''}, M records/s"
    return Rates(name, _decode(log, check_crc=True), partial(_decode, log, check_crc=check_crc))


def _decode(log: str, *, check_crc: bool) -> int:
    wanted = ("offset", "timestamp_ms", "key", "value")
    return sum(batch.num_rows for batch in read_record_batches(log, columns=wanted, check_crc=check_crc))


def appending(data: Path, repeats: int, records: int = kafka_data.RECORDS) -> list[Row]:
    """Encodes records in columns to batches of 150 in a new segment, unsynced as BenchLog's; M
    records/s.

    Measured for an open, empty log (`Log.append_columns`: checks, indexes, epochs, producers), for
    a new `LogSegment` as in BenchLog, and for a plain file. The last two remove the previous
    round's files within their time, as BenchLog does.
    """
    rows = []
    for codec in kafka_data.CODECS:
        table = kafka_data.records_like(kafka_data.ensure(data, codec, records), min(APPENDED, records))
        target, count = data / "appended", table.num_rows
        log = _FreshLog(data / "appended-log")
        ours = [
            Rates(f"encode {codec}, append_columns, M records/s", count, partial(log.append, table, codec), log.open),
            segment_rates(table, codec, target),
            Rates(f"encode {codec}, to a file, M records/s", count, partial(_to_file, table, codec, target)),
        ]
        engine = partial(kafka_peer.write_and_append, data, codec, records)
        theirs = around(ours, repeats, engine).get("encodeAndAppendRecordsPerSecond")
        log.remove()
        remove(target)
        rows += [row(each, theirs, 1e6, APPEND_BARS[codec]) for each in ours]
    return rows


def segment_rates(table: pa.Table, codec: str, target: Path) -> Rates:
    """Records per second into a new segment in `target`."""
    call = partial(_to_segment, table, codec, target)
    return Rates(f"encode {codec}, to a segment, M records/s", table.num_rows, call)


class _FreshLog:
    """A new log for each round. Opening, closing (which sync files) and removing it are not
    counted."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._log: Log | None = None

    def open(self) -> None:
        self.remove()
        self._log = Log.open(str(self._target / "bench-0"))

    def append(self, table: pa.Table, codec: str) -> None:
        assert self._log is not None
        self._log.append_columns(table, compression=codec, batch_records=kafka_data.BATCH_RECORDS)

    def remove(self) -> None:
        if self._log is not None:
            self._log.close()
        self._log = None
        remove(self._target)


def _to_segment(table: pa.Table, codec: str, target: Path) -> None:
    remove(target)
    target.mkdir()
    with LogSegment(str(target), 0, writable=True) as segment:
        for piece in _pieces(table, codec):
            segment.append(piece.data.data, piece.columns)
        segment.on_become_inactive()


def _to_file(table: pa.Table, codec: str, target: Path) -> None:
    remove(target)
    target.mkdir()
    with (target / kafka_data.LOG_NAME).open("wb", buffering=0) as file:
        for piece in _pieces(table, codec):
            file.write(piece.data.data)


def _pieces(table: pa.Table, codec: str) -> Iterator[EncodedBatches]:
    compression = Compression[codec.upper()]
    return iter_encoded(table, base_offset=0, compression=compression, batch_records=kafka_data.BATCH_RECORDS)
