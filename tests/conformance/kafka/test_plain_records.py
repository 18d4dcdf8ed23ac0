"""Records that are read without Arrow are those that are read with it, whatever the filter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.columns.record_decoder import RecordDecoder
from logdex.kafka.log.log import Log
from logdex.kafka.snapshot.log_dir_snapshot import KafkaSnapshot, LogDirSnapshot, open_kafka
from logdex.kernels.kafka.batch_columns import BatchColumns
from tests.conftest import GoldenStore
from tests.examples import cases
from tests.golden import kafka as golden
from tests.plain_twins import plain_twins


def read(snapshot: KafkaSnapshot, wanted: dict[str, Any], *, plain: bool) -> tuple[Any, ...]:
    """Returns what a scan finds, with the place of each record."""
    with plain_twins(plain):
        scan = snapshot.scan(**wanted)
        rows = [(partition.path, record) for partition, record in scan.items()]
    ends = [(each.segment.log.path, each.end.kind, each.end.position) for each in scan.ends]
    gaps = (scan.gaps, scan.missing_offsets) if scan.limit is None else None  # else of what was read, with more or less
    return rows, scan.rows, gaps, [str(each) for each in scan.problems], ends


def filters_of(records: list[Record]) -> list[dict[str, Any]]:
    middle = records[len(records) // 2]
    key = next((record.key for record in records if record.key is not None), b"none")
    time = max(middle.timestamp_ms, 0)
    bounds = [{"begin_ms": time}, {"end_ms": time}, {"offset": middle.offset, "limit": 3}]
    return [{}, {"limit": 7}, {"control": True}, {"key": key}, {"isolation": "read_committed"}, *bounds]


@pytest.mark.parametrize("name", cases(golden.NAMES, 2))
def test_scans_find_the_same(name: str, golden_log: GoldenStore) -> None:
    with open_kafka(str(golden_log(name))) as snapshot:
        records = list(snapshot.scan(control=True).records())
        for wanted in filters_of(records):
            assert read(snapshot, wanted, plain=True) == read(snapshot, wanted, plain=False), wanted


def test_queries_find_the_same(golden_log: GoldenStore) -> None:
    found = []
    for plain in (True, False):
        with plain_twins(plain), LogDirSnapshot(str(golden_log("tiny-broker"))) as snapshot:
            found.append(snapshot.query("orders", "key-793"))
    assert found[0] == found[1] != []


def test_no_arrow_batch_is_made_for_a_few_records(golden_log: GoldenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("an Arrow batch was made")

    monkeypatch.setattr("logdex.kafka.columns.record_decoder.records_to_batch", refuse)
    with plain_twins(True), open_kafka(str(golden_log("tiny-broker"))) as snapshot:
        assert [*snapshot.scan(topic="orders", limit=5)]
        with pytest.raises(AssertionError, match="Arrow"):
            snapshot.scan(topic="orders", limit=5).to_arrow().read_all()


def test_the_first_records_of_full_batches_need_no_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Log.open(str(tmp_path / "events-0")) as log:
        log.append_columns(pa.table({"value": [b"%d" % number for number in range(40_000)]}), batch_records=1_000)
    seen: list[int] = []

    def decode(self: RecordDecoder, columns: BatchColumns, count: int) -> Iterator[object]:
        seen.append(int(columns.count[:count].sum()))
        return decode_few(self, columns, count)

    decode_few = RecordDecoder._decode_few
    monkeypatch.setattr(RecordDecoder, "_decode_few", decode)
    with plain_twins(True), open_kafka(str(tmp_path)) as snapshot:
        for start in (0, 15_500):
            assert [record.offset for record in snapshot.scan(offset=start, limit=3)] == [*range(start, start + 3)]
    assert seen == [1_000, 1_000]
