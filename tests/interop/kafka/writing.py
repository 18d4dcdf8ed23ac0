"""Writing logs of every kind for a real broker, and knowing what it must then say of them."""

from __future__ import annotations

import base64
import random
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from logdex.kafka.batch.record import Compression, Header, Record, TimestampType
from logdex.kafka.batch.record_batch import encode_batch
from logdex.kafka.log.append import AppendInfo
from logdex.kafka.log.log import Log
from tests.interop.kafka.peer import Line

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PRODUCERS = 9_000_000
"""Our producers' ids begin here, a broker's at 0."""


@dataclass(frozen=True)
class Written:
    """A record as it must be read. `fate`: `None` for one that counts, "aborted", "open", or
    "marker" for the end of a transaction, which consumers are not shown but are told of by time."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
    timestamp_type: str
    leader_epoch: int
    fate: str | None = None

    @staticmethod
    def of(record: Record, fate: str | None = None) -> Written:
        """What `Log.read` gave."""
        headers = tuple((name if isinstance(name, str) else name.decode(), value) for name, value in record.headers)
        stamp = (record.timestamp_ms, record.timestamp_type.value, record.leader_epoch)
        return Written(record.offset, record.key, record.value, headers, *stamp, fate)

    @staticmethod
    def told(line: Line) -> Written:
        """What a consumer's line says."""
        headers = tuple((name, _bytes(value)) for name, value in line["headers"])
        key, value = _bytes(line["key"]), _bytes(line["value"])
        stamp = (line["timestamp"], line["timestampType"], line.get("leaderEpoch", -1))
        return Written(line["offset"], key, value, headers, *stamp)

    @property
    def without_fate(self) -> Written:
        """As a consumer of uncommitted records sees it."""
        return replace(self, fate=None)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


class Writer:
    """Appends to a log, seeded, and keeps what it wrote in `written`, by offset. `start_ms`: the
    first record's timestamp; each following one is some milliseconds later or earlier."""

    def __init__(self, log: Log, seed: int, *, start_ms: int, first_producer: int = PRODUCERS) -> None:
        self.log = log
        self.written: list[Written] = []
        self.chance = random.Random(seed)
        self.now_ms = start_ms
        self.next_producer = first_producer

    # -- records ----------------------------------------------------------------------------------
    def record(self) -> Record:
        chance = self.chance
        self.now_ms += chance.randrange(0, 40)
        key = chance.choice((None, b"", b"key-%d" % chance.randrange(50), chance.randbytes(12)))
        text = b"value %d " % chance.randrange(10**6)
        value = chance.choice((None, b"", text, text * 20, chance.randbytes(90)))
        headers: tuple[Header, ...] = (("trace", chance.randbytes(4)), ("", b""), ("né", None), ("trace", b"again"))
        stamp = self.now_ms - chance.choice((0, 0, 0, 700))
        return Record(key, value, stamp, headers[: chance.choice((0, 0, 1, 2, 4))])

    def records(self, most: int = 12) -> list[Record]:
        return [self.record() for _ in range(self.chance.randint(1, most))]

    # -- appends ----------------------------------------------------------------------------------
    def plain(self, *, codec: str = "none", most: int = 12, leader_epoch: int | None = None) -> None:
        records = self.records(most)
        self._note(records, self.log.append(records, compression=codec, leader_epoch=leader_epoch))

    def legacy(self, magic: int, *, codec: str = "none") -> None:
        """Messages of an old format, as an old leader's log has them: without headers, magic 0
        without timestamps."""
        records = [replace(each, headers=()) for each in self.records(most=6)]
        first = self.log.log_end_offset
        compression = Compression[codec.upper()]
        raw = encode_batch(records, base_offset=first, compression=compression, magic=magic)
        info = self.log.append_batches(raw, assign_offsets=False)
        assert info.last_offset == first + len(records) - 1
        kind = TimestampType.CREATE_TIME if magic else TimestampType.NO_TIMESTAMP_TYPE
        for place, each in enumerate(records):
            stamp = each.timestamp_ms if magic else -1
            read = replace(each, offset=first + place, timestamp_ms=stamp, timestamp_type=kind)
            self.written.append(Written.of(read))

    def columns(self, *, codec: str = "none", rows: int = 60) -> None:
        """A table, many batches at once."""
        records = [self.record() for _ in range(rows)]
        headers = pa.array(
            [[{"key": str(name), "value": value} for name, value in each.headers] for each in records],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        )
        table = pa.table(
            {
                "key": pa.array([each.key for each in records], pa.binary()),
                "value": pa.array([each.value for each in records], pa.binary()),
                "timestamp_ms": pa.array([each.timestamp_ms for each in records], pa.int64()),
                "headers": headers,
            }
        )
        info = self.log.append_columns(table, compression=codec, batch_records=7)
        assert info is not None
        self._note(records, info)

    def idempotent(self, *, codec: str = "none", batches: int = 3) -> int:
        """Batches of one producer, and its last one sent again; its id."""
        producer = self._producer()
        for _ in range(batches):
            records = self.records()
            sequence = self._next_sequence(producer)
            info = self.log.append(
                records, compression=codec, producer_id=producer, producer_epoch=0, sequence=sequence
            )
            self._note(records, info)
        again = self.log.append(records, compression=codec, producer_id=producer, producer_epoch=0, sequence=sequence)
        assert again.is_duplicate
        assert (again.first_offset, again.last_offset) == (info.first_offset, info.last_offset)
        return producer

    def _next_sequence(self, producer: int) -> int:
        state = self.log.producer(producer)
        return 0 if state is None else state.last_sequence + 1

    def transaction(self, *, end: str, codec: str = "none", batches: int = 2, plain: bool = True) -> None:
        """One transaction, plain batches in between; `end` is commit, abort or open."""
        transaction = self.log.transaction(self._producer())
        fate = {"commit": None, "abort": "aborted", "open": "open"}[end]
        for _ in range(batches):
            records = self.records(5)
            self._note(records, transaction.append(records, compression=codec), fate)
            if plain:
                self.plain(most=3)
        if end != "open":
            self._note_marker(transaction.commit() if end == "commit" else transaction.abort())

    def interleaved(self) -> None:
        """Two transactions at once, of which the first one is aborted behind the end of the
        second."""
        first, second = (self.log.transaction(self._producer()) for _ in range(2))
        for transaction, fate in ((first, "aborted"), (second, None), (first, "aborted")):
            records = self.records(4)
            self._note(records, transaction.append(records, compression="lz4"), fate)
        self._note_marker(second.commit())
        self.plain(most=2)
        self._note_marker(first.abort())

    def everything(self) -> None:
        """Each kind of append once, with each codec."""
        for codec in CODECS:
            self.plain(codec=codec)
            self.columns(codec=codec)
            self.idempotent(codec=codec)
            self.transaction(end="commit", codec=codec)
            self.transaction(end="abort", codec=codec)
        self.interleaved()
        self.plain(most=1)

    def _producer(self) -> int:
        self.next_producer += 1
        return self.next_producer

    def _note(self, records: list[Record], info: AppendInfo, fate: str | None = None) -> None:
        assert info.last_offset - info.first_offset + 1 == len(records)
        first = self.log.read(info.first_offset, max_records=1)[0]
        for place, record in enumerate(records):
            stamped = replace(
                record,
                offset=info.first_offset + place,
                leader_epoch=first.leader_epoch,
                timestamp_ms=record.timestamp_ms if info.log_append_time_ms < 0 else info.log_append_time_ms,
                timestamp_type=TimestampType.CREATE_TIME
                if info.log_append_time_ms < 0
                else TimestampType.LOG_APPEND_TIME,
            )
            self.written.append(Written.of(stamped, fate))

    def _note_marker(self, info: AppendInfo | None) -> None:
        assert info is not None
        stamp = (info.max_timestamp_ms, "CreateTime", self.log.leader_epochs[-1].epoch)
        self.written.append(Written(info.first_offset, None, None, (), *stamp, "marker"))


# -- what must be said ---------------------------------------------------------------------------
def uncommitted(written: list[Written]) -> list[Written]:
    """What a consumer of uncommitted records gets."""
    return [each.without_fate for each in written if each.fate != "marker"]


def committed(written: list[Written]) -> list[Written]:
    """What a consumer of committed records gets."""
    stop = next((each.offset for each in written if each.fate == "open"), None)
    return [each for each in written if each.fate is None and (stop is None or each.offset < stop)]


def check_consumed(lines: dict[str, list[Line]], written: list[Written], *, begin: int, end: int) -> None:
    """A consumer got what was written, from `begin` on, uncommitted and committed."""
    seen = [each for each in written if each.offset >= begin]
    expected = {"read_uncommitted": uncommitted(seen), "read_committed": committed(seen)}
    stable = next((each.offset for each in written if each.fate == "open"), end)
    for line in lines["offsets"]:
        upto = end if line["isolation"] == "read_uncommitted" else stable
        assert (line["begin"], line["end"]) == (begin, upto), line
    for isolation, wanted in expected.items():
        got = [Written.told(line) for line in lines["message"] if line["isolation"] == isolation]
        assert_same(got, wanted)
    assert all("error" not in line for line in lines["consumed"])


def assert_same(got: list[Written], wanted: list[Written]) -> None:
    """Equal; else the first difference is shown."""
    for one, other in zip(got, wanted, strict=False):
        assert one == other
    assert len(got) == len(wanted)


def check_times(lines: dict[str, list[Line]], written: list[Written], *, begin: int = 0) -> None:
    """The broker's answers by time: the first record of a timestamp or a later one, in the order of
    the log."""
    assert lines["offsetForTime"]
    for line in lines["offsetForTime"]:
        hit = next((each for each in written if each.timestamp_ms >= line["query"] and each.offset >= begin), None)
        found: Any = (line.get("offset"), line.get("timestamp"))
        assert found == ((hit.offset, hit.timestamp_ms) if hit else (None, None)), line


def check_read_back(log: Log, written: list[Written]) -> None:
    """Our own reading of it, uncommitted and committed."""
    start = log.log_start_offset
    seen = [each for each in written if each.offset >= start]
    assert_same([Written.of(each) for each in log.records()], uncommitted(seen))
    assert_same([Written.of(each) for each in log.records(isolation="read_committed")], committed(seen))
