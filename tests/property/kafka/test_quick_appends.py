"""The short way of records into a log: it encodes as the kernel and `encode_batch` do, and writes
the files that the long way writes."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdex.errors import InvalidRecordError, LogFailedError, RecordTooLargeError, StorageError, UsageError
from logdex.io.files import WriteFile
from logdex.kafka.batch.batch_writer import encode_batch
from logdex.kafka.batch.plain_batch import encode_plain
from logdex.kafka.batch.record import NO_TIMESTAMP, Record
from logdex.kafka.columns.encode_columns import encode_columns
from logdex.kafka.log import quick
from logdex.kafka.log.append import AppendInfo, append_encoded
from logdex.kafka.log.log import Log
from tests.examples import examples
from tests.property.kafka.test_encode import RECORDS, table_of

NOW_MS = 1_700_000_000_500
Appends = list[tuple[list[Record], dict[str, Any]]]


@settings(max_examples=examples(400))
@given(RECORDS, st.integers(0, 2**62), st.integers(0, 2**31 - 1))
def test_a_batch_is_that_of_the_kernel_and_of_its_twin(
    records: list[Record], base_offset: int, leader_epoch: int
) -> None:
    batch = encode_plain(records, NOW_MS)
    assert batch is not None
    stamped = [replace(each, timestamp_ms=NOW_MS) if each.timestamp_ms == NO_TIMESTAMP else each for each in records]
    where: dict[str, Any] = {"base_offset": base_offset, "leader_epoch": leader_epoch}
    raw = batch.at(**where)
    assert raw == encode_batch(stamped, **where)
    kernel = encode_columns(table_of(stamped), batch_records=len(records), **where)
    assert raw == kernel.data.tobytes()
    assert (batch.size_bytes, batch.max_timestamp_ms) == (len(raw), kernel.columns.max_timestamp_ms[0])


@pytest.mark.parametrize("timestamp_ms", [-2, 1 << 63])
def test_a_timestamp_that_no_batch_has_is_for_the_long_way(timestamp_ms: int) -> None:
    assert encode_plain([Record(timestamp_ms=5), Record(timestamp_ms=timestamp_ms)], NOW_MS) is None


# -- whole logs ----------------------------------------------------------------------------------
def take_the_long_way(_: quick.QuickAppends, records: Sequence[Record]) -> AppendInfo | None:
    return None


def written(appends: Appends, settings: dict[str, Any]) -> tuple[list[AppendInfo | str], dict[str, bytes]]:
    """What a new log returns and holds, open and closed."""
    with tempfile.TemporaryDirectory() as root:
        path, told, files, now_ms = Path(root, "events-0"), list[AppendInfo | str](), dict[str, bytes](), [NOW_MS]

        def look(state: str) -> None:
            files.update({f"{state} {file.name}": file.read_bytes() for file in path.iterdir()})

        with Log.open(path, clock_ms=lambda: now_ms[0], **settings) as opened:
            for records, options in appends:
                now_ms[0] += 7
                try:
                    told.append(opened.append(records, **options))
                except (InvalidRecordError, RecordTooLargeError, UsageError) as error:
                    told.append(str(error).replace(root, ""))
            told.append(repr([opened.log_end_offset, opened.leader_epochs, opened.high_watermark]))
            told.append(repr(opened.offset_for_timestamp(-3)))
            look("open")
        look("closed")
        return told, files


OPTIONS = st.sampled_from(
    [*[dict[str, Any]()] * 6, {"producer_id": 7, "producer_epoch": 0}, {"leader_epoch": 3}, {"compression": "lz4"}]
)
SETTINGS = st.fixed_dictionaries(
    {
        "segment_bytes": st.sampled_from([900, 4_000, 1 << 30]),
        "index_interval_bytes": st.sampled_from([0, 200, 4096]),
        "segment_index_bytes": st.sampled_from([24, 60, 1 << 12]),
        "segment_ms": st.sampled_from([50, 1 << 40]),
        "cleanup_policy": st.sampled_from(["delete", "compact"]),
        "message_timestamp_type": st.sampled_from(["CreateTime", "CreateTime", "LogAppendTime"]),
    }
)


@settings(max_examples=examples(160), deadline=None)
@given(st.lists(st.tuples(RECORDS.map(lambda records: records[:4]), OPTIONS), max_size=40), SETTINGS)
def test_a_log_has_the_files_of_the_long_way(appends: Appends, given_settings: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quick.QuickAppends, "append", take_the_long_way)
        expected = written(appends, given_settings)
    assert written(appends, given_settings) == expected


# -- which way is taken --------------------------------------------------------------------------
def test_usual_records_take_the_short_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long_ways: list[int] = []

    def counted(core: Any, encoded: Any) -> AppendInfo:
        long_ways.append(core.next_offset)
        return append_encoded(core, encoded)

    monkeypatch.setattr("logdex.kafka.log.log.append_encoded", counted)
    with Log.open(tmp_path / "events-0", segment_bytes=2_000) as opened:
        for number in range(30):
            opened.append(Record(b"k", b"%0100d" % number))
        bases = [segment.base_offset for segment in opened.segments]
    assert long_ways == bases  # the first record of a log makes its epoch, that of a segment rolls
    assert len(bases) > 2
    del long_ways[:]
    with Log.open(tmp_path / "other-0", flush="sync", cleanup_policy="compact") as opened:
        for records in (Record(b"k", b"v"), [Record(b"k", None)] * 3, [Record(b"k", b"v", 7, (("h", b"v"),))]):
            opened.append(records)
        assert opened.high_watermark == opened.log_end_offset == 5
        assert opened.recovery_point == 0
    assert long_ways == [0]


def test_after_a_failed_write_nothing_more_is_acknowledged(tmp_path: Path) -> None:
    def refuse(file: WriteFile, position: int, data: bytes) -> None:
        raise StorageError("no space left on device", path=file.path)

    with Log.open(tmp_path / "events-0") as opened:
        opened.append(Record(value=b"first"))
        opened.append(Record(value=b"second"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(WriteFile, "write_at", refuse)
            with pytest.raises(StorageError, match="no space left"):
                opened.append(Record(value=b"refused"))
        with pytest.raises(LogFailedError):
            opened.append(Record(value=b"too late"))
    with Log.open(tmp_path / "events-0") as opened:
        assert [record.value for record in opened.read(0)] == [b"first", b"second"]
