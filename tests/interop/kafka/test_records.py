"""The real Kafka classes read what we encode: every magic, codec and kind of timestamp."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from logdex.kafka.batch.record import Compression, Header, Record, TimestampType
from logdex.kafka.batch.record_batch import decode_batch, encode_batch, encode_end_marker
from tests.interop.kafka.peer import ENVIRONMENT, PEERS, VERSIONS, needs_peers

START_MS = 1_700_000_000_000

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(600), needs_peers]


def _records(chance: random.Random, *, magic: int, large: bool) -> list[Record]:
    made = []
    for i in range(7):
        headers: tuple[Header, ...] = (("h", None), ("é", b"x"))[: i % 3] if magic == 2 else ()
        noise = chance.randbytes(60_000 if large else 40)
        key, value = chance.choice([None, b"", b"k%d" % i]), chance.choice([None, b"v" * i, noise])
        made.append(Record(key, value, START_MS + chance.randrange(1000), headers))
    return made


def _log() -> bytes:
    """One batch (or run of messages) of each kind, an emptied batch, an odd header key, a
    transaction's end."""
    chance, parts, offset = random.Random(4), [], 0
    for magic, codec in ((magic, codec) for magic in range(3) for codec in Compression):
        if magic < 2 and codec is Compression.ZSTD:
            continue
        for appended in (False, True):
            raw = encode_batch(
                _records(chance, magic=magic, large=appended),
                base_offset=offset,
                compression=codec,
                magic=magic,
                timestamp_type=TimestampType.LOG_APPEND_TIME if appended else TimestampType.CREATE_TIME,
                max_timestamp_ms=START_MS + 5000 if appended else None,
                delete_horizon_ms=START_MS + 9999 if magic == 2 and not appended else None,
            )
            parts.append(raw)
            offset += 7
    parts.append(encode_batch([], base_offset=offset, last_offset=offset + 3, max_timestamp_ms=5))
    producer: dict[str, Any] = {"producer_id": 9, "producer_epoch": 1}
    odd = Record(b"a", b"b", 7, ((b"\xff\xfe", b"q"),))
    parts.append(
        encode_batch([odd], base_offset=offset + 4, base_sequence=(1 << 31) - 1, is_transactional=True, **producer)
    )
    marker = encode_end_marker(True, coordinator_epoch=2, offset=offset + 5, timestamp_ms=START_MS, **producer)
    return b"".join([*parts, marker])


def _is(line: dict[str, Any], name: str, data: bytes | None) -> bool:
    if data is not None and name not in line:
        return bool(line[f"{name}Sha256"] == hashlib.sha256(data).hexdigest())
    return bool(line[name] == (None if data is None else base64.b64encode(data).decode()))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_real_classes_read_what_we_write(version: str, tmp_path: Path) -> None:
    raw = _log()
    (tmp_path / "logs" / "real-0").mkdir(parents=True)
    (tmp_path / "logs" / "real-0" / f"{0:020d}.log").write_bytes(raw)
    command = [str(PEERS / "run"), "-v", version, "ReadLog", "--dir", str(tmp_path / "logs"), "--mode", "raw"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, timeout=500, check=True)
    lines = [json.loads(text) for text in done.stdout.decode().splitlines()]
    assert [line["readTo"] for line in lines if line["kind"] == "segment"] == [len(raw)]
    told = [line for line in lines if line["kind"] == "record"]
    at = read = 0
    for line in (line for line in lines if line["kind"] == "batch"):
        batch, size = decode_batch(raw, at)
        assert (line["position"], line["size"], line["valid"], line["crc"]) == (at, size, True, batch.crc)
        assert (line["lastOffset"], line["lastSequence"]) == (batch.last_offset, batch.last_sequence)
        assert line.get("deleteHorizon") == batch.delete_horizon_ms
        at += size
        for record in batch.records():
            theirs = told[read]
            assert (theirs["offset"], theirs["timestamp"]) == (record.offset, record.timestamp_ms)
            assert theirs["sequence"] == record.sequence
            assert _is(theirs, "key", record.key)
            assert _is(theirs, "value", record.value)
            assert len(theirs["headers"]) == len(record.headers)
            read += 1
    assert (at, read) == (len(raw), len(told))
    assert told[-1]["controlType"] == "COMMIT"
