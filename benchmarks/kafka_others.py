"""Native and Python peers (krabka-log, kafka-protocol, aiokafka, kafka-python) on the same
partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import kafka_data, kafka_peer
from benchmarks.kafka_local import APPENDED, Row, decoding_rates, recovery_rates, segment_rates
from benchmarks.measure import remove

PYTHON_RECORDS, PYTHON_REPEATS = 150_000, 3
OURS = {
    "krabka.recover": "recover",
    "krabka.Log.open": "recover",
    "krabka.decode(Log.read, 1 MiB, owned)": "decode",
    "krabka.decode(RecordBatch::decode, owned)": "decode",
    "krabka.decode(borrowed)": "decode",
    "kafka-protocol.decode": "decode",
    "krabka.append(encode)": "append",
}
"""Which figure of Logdex is compared with a native peer's. Decoding is to Arrow columns, with
CRC."""


def peers(data: Path, repeats: int, records: int = kafka_data.RECORDS) -> list[Row]:
    """The peers' figures, those of Logdex where comparable, and the ratio."""
    rows: list[Row] = []
    for codec in kafka_data.CODECS:
        partition = kafka_data.ensure(data, codec, records)
        if reason := kafka_peer.why_native_missing():
            rows.append({"what": f"native peers {codec}", "skipped": reason})
        if reason := kafka_peer.why_python_missing():
            rows.append({"what": f"Python peers {codec}", "skipped": reason})
        if kafka_peer.why_native_missing() and kafka_peer.why_python_missing():
            continue
        ours = _ours(partition, codec, data, repeats)
        if not kafka_peer.why_native_missing():
            rows += [_native_row(line, codec, ours) for line in kafka_peer.native(partition, repeats)]
        if not kafka_peer.why_python_missing():
            lines = kafka_peer.python_decoders(partition / kafka_data.LOG_NAME, PYTHON_RECORDS, PYTHON_REPEATS)
            rows += [_python_row(line, codec, ours["decode"]) for line in lines]
    return rows


def _ours(partition: Path, codec: str, data: Path, repeats: int) -> dict[str, float]:
    """Medians: bytes, records, and records per second."""
    scratch = data / "ours.scratch"
    table = kafka_data.records_like(partition, APPENDED)
    rates = {
        "recover": recovery_rates(partition, codec, scratch),
        "decode": decoding_rates(partition, codec, check_crc=True),
        "append": segment_rates(table, codec, scratch),
    }
    for each in rates.values():
        each.measure(repeats)
    remove(scratch)
    return {name: each.median for name, each in rates.items()}


def _native_row(line: dict[str, Any], codec: str, ours: dict[str, float]) -> Row:
    row = {"what": f"{line['name']} {codec}, {line['unit']}", "median": line["median"]}
    return row if line["name"] not in OURS else row | _beside(line["median"], ours[OURS[line["name"]]] / 1e6)


def _python_row(line: dict[str, Any], codec: str, ours: float) -> Row:
    what = f"{line['decoder']} {codec}, decode, M rec/s"
    if "error" in line:
        return {"what": what, "error": line["error"]}
    theirs = line["M_records_per_second"]
    return {"what": what, "median": theirs, **_beside(theirs, ours / 1e6)}


def _beside(theirs: float, ours: float) -> dict[str, float]:
    return {"ours": round(ours, 3), "ratio": round(ours / theirs, 2)}
