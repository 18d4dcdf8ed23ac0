"""Exports: what is where in Parquet, what a second run adds, and what is refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from logdex.convert.export import export, writer
from logdex.convert.export.manifest import last_manifest
from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.sources.rocketmq import StoreSource
from logdex.errors import CorruptError, UsageError
from logdex.io.env import DEFAULT_ENV
from logdex.kafka import Log, Record
from logdex.rocketmq.read.read_filter import ReadFilter
from logdex.testing.store_builder import write_commit_log
from tests.directories import contents
from tests.unit.convert.export.lakes import exported, parquet_files, rows_of, without_day
from tests.unit.rocketmq.small_stores import FILE_SIZE, START_MS, message

SETTINGS = {"mapped_file_size_commit_log": FILE_SIZE, "rocketmq_version": "5.5.0"}
DAY_MS = 86_400_000


def messages(count: int, first: int = 0) -> list[Any]:
    """Messages of two topics in turn, three a day."""
    return [
        message(
            number,
            keys=f"k-{number}",
            tag="AB"[number % 2],
            topic=(b"TopicA", b"%RETRY%g")[number % 2],
            queue_id=number % 3,
            store_timestamp_ms=START_MS + number * DAY_MS // 3,
        )
        for number in range(first, first + count)
    ]


def date_of(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).date().isoformat()


def store(root: Path, count: int = 40) -> StoreSource:
    write_commit_log(str(root), messages(count), FILE_SIZE)
    return StoreSource(str(root), settings=SETTINGS)


def partition(root: Path, first: int, count: int) -> LogDirSource:
    with Log.open(str(root / "events-0")) as log:
        for number in range(first, first + count):
            log.append([Record(key=b"k%d" % number, value=b"v", timestamp_ms=START_MS + number * DAY_MS // 3)])
    return LogDirSource(str(root))


def test_rows_by_topic_and_day(tmp_path: Path) -> None:
    source, output = store(tmp_path / "store"), tmp_path / "lake"
    report = export(source, str(output), sync=False)
    rows = exported(output)
    assert without_day(rows) == rows_of(source)
    assert [row["day"] for row in rows] == [date_of(row["storeTimestamp"]) for row in rows]
    assert (report.messages, report.run, report.lossy, report.notes) == (40, 1, False, [])
    assert report.files == len(parquet_files(output)) > 20
    assert report.written_bytes == sum((output / name).stat().st_size for name in parquet_files(output))
    names = {path.name for path in output.iterdir()}
    assert names == {"topic=TopicA", "topic=%25RETRY%25g", "_logdex"}, "no staging folder and no lock is left"
    read = ds.dataset(str(output), partitioning="hive").to_table()
    assert read.num_rows == 40
    assert set(read.column("topic").to_pylist()) == {"TopicA", "%RETRY%g"}


def test_row_groups_are_sorted_and_say_what_is_in_them(tmp_path: Path) -> None:
    output = tmp_path / "lake"
    export(store(tmp_path / "store", 9), str(output), sync=False)
    for name in parquet_files(output):
        file = pq.ParquetFile(output / name)
        rows = file.read().to_pylist()
        assert rows == sorted(rows, key=lambda row: (row["queueId"], row["queueOffset"]))
        group = file.metadata.row_group(0)
        columns = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
        assert columns["storeTimestamp"].statistics.has_min_max
        sorted_by = [group.column(each.column_index).path_in_schema for each in group.sorting_columns]
        assert sorted_by == ["queueId", "queueOffset", "physicalOffset"]
        filters = {name for name, column in columns.items() if column.bloom_filter_offset is not None}
        assert filters == {"uniqueKey", "msgId", "keys.list.element"}


def test_a_second_run_adds_what_is_new(tmp_path: Path) -> None:
    root, output = tmp_path / "store", tmp_path / "lake"
    export(store(root, 20), str(output), sync=False)
    before = contents(output)
    source = store(root, 40)
    report = export(source, str(output), sync=False)
    assert (report.messages, report.run) == (20, 2)
    assert without_day(exported(output)) == rows_of(source)
    after = contents(output)
    assert {name: after[name] for name in before} == before, "nothing that was exported is touched"
    report = export(source, str(output), sync=False)
    assert (report.messages, report.files, report.run) == (0, 0, 0)
    assert contents(output) == after


def test_partitions_go_on_at_their_offsets(tmp_path: Path) -> None:
    output = tmp_path / "lake"
    export(partition(tmp_path / "logs", 0, 5), str(output), sync=False)
    source = partition(tmp_path / "logs", 5, 4)
    report = export(source, str(output), sync=False)
    assert (report.messages, report.positions) == (4, {"events-0": 9})
    assert without_day(exported(output)) == rows_of(source)
    assert [row["offset"] for row in exported(output)] == list(range(9))


def test_a_filter(tmp_path: Path) -> None:
    source, output = store(tmp_path / "store"), tmp_path / "lake"
    some = replace(source, wanted=ReadFilter(topic=b"TopicA", queue_ids=frozenset([0]), begin_ms=START_MS + 2 * DAY_MS))
    export(some, str(output), sync=False)
    rows = exported(output)
    assert without_day(rows) == rows_of(some)
    assert {(row["topic"], row["queueId"]) for row in rows} == {("TopicA", 0)}
    told = rf"was exported with the filter .*TopicA.* .give --topic TopicA --queue 0 --from {START_MS + 2 * DAY_MS}, or"
    with pytest.raises(UsageError, match=told):
        export(source, str(output), sync=False)
    some = replace(source, wanted=ReadFilter(topic=b"TopicA", begin_ms=START_MS + 2 * DAY_MS, begin_offset=5))
    with pytest.raises(UsageError, match=r"give --queue 0 and leave out --physical-offset, or choose another --output"):
        export(some, str(output), sync=False)
    export(source, str(tmp_path / "all"), sync=False)
    with pytest.raises(
        UsageError, match=r"all was exported without a filter .leave out --topic, --from, --physical-off"
    ):
        export(some, str(tmp_path / "all"), sync=False)
    (tmp_path / "logs").mkdir()
    with pytest.raises(UsageError, match="messages of another format, rocketmq"):
        export(partition(tmp_path / "logs", 0, 1), str(output), sync=False)


def test_times_that_no_calendar_has(tmp_path: Path) -> None:
    output = tmp_path / "lake"
    with Log.open(str(tmp_path / "logs" / "events-0"), message_timestamp_after_max_ms=-1) as log:
        log.append([Record(value=b"v", timestamp_ms=time) for time in (0, 1 << 60)])
    export(LogDirSource(str(tmp_path / "logs")), str(output), sync=False)
    assert [row["day"] for row in exported(output)] == ["1970-01-01", "__HIVE_DEFAULT_PARTITION__"]


def test_bounded_memory_makes_more_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "WAITING_BYTES", 2000)
    monkeypatch.setattr(writer, "ROW_GROUP_BYTES", 1500)
    monkeypatch.setattr(writer, "_OPEN_MAX", 2)
    source, output = store(tmp_path / "store"), tmp_path / "lake"
    export(source, str(output), sync=False, task_bytes=4 * FILE_SIZE)
    assert without_day(exported(output)) == rows_of(source)


def test_a_log_that_was_cut_is_refused(tmp_path: Path) -> None:
    output = tmp_path / "lake"
    export(store(tmp_path / "store", 20), str(output), sync=False)
    before = contents(output)
    with pytest.raises(UsageError, match="it was cut, or is another log"):
        export(store(tmp_path / "shorter", 10), str(output), sync=False)
    assert contents(output) == before


def test_damage_is_told_and_what_is_behind_it_exported(tmp_path: Path) -> None:
    source, output = store(tmp_path / "store"), tmp_path / "lake"
    file = sorted((tmp_path / "store" / "commitlog").iterdir())[1]
    data = bytearray(file.read_bytes())
    data[data.index(b"body")] ^= 0xFF
    file.write_bytes(data)
    report = export(source, str(output), sync=False)
    assert report.lossy
    assert str(file) in report.losses[0]
    assert 30 < report.messages < 40
    assert json.loads((output / "_logdex" / "000001.json").read_text())["losses"] == report.losses


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"logdex_export": 1, "files": [{}]}'])
def test_strange_manifests(tmp_path: Path, text: str) -> None:
    output = tmp_path / "lake"
    (output / "_logdex").mkdir(parents=True)
    (output / "_logdex" / "000007.json").write_text(text)
    with pytest.raises(CorruptError, match="no manifest of an export"):
        last_manifest(str(output), DEFAULT_ENV)


@pytest.mark.parametrize("gone", ["_logdex", "_logdex/000002.json"])
def test_files_whose_manifest_is_gone_are_refused(tmp_path: Path, gone: str) -> None:
    """The next run would replace some of them, and have the rows of others twice."""
    output, moved = tmp_path / "lake", tmp_path / "moved"
    for count in (3, 6):
        export(partition(tmp_path / "logs", count - 3, 3), str(output), sync=False)
    (output / gone).rename(moved)
    before = contents(output)
    with pytest.raises(UsageError, match=r"run00000[12]-00000-0\.parquet is there, but not .*_logdex/00000[12]\.json"):
        export(LogDirSource(str(tmp_path / "logs")), str(output), sync=False)
    assert contents(output) == before
    moved.rename(output / gone)
    assert export(LogDirSource(str(tmp_path / "logs")), str(output), sync=False).messages == 0


@pytest.mark.parametrize("name", ["p.parquet", "topic=orders/p.parquet", "a/b/part-0.parquet", "_spark_metadata/0"])
def test_outputs_of_others_are_refused(tmp_path: Path, name: str) -> None:
    """Readers of the lake would take their rows for messages, or see none of ours."""
    file, source = tmp_path / "lake" / name, store(tmp_path / "store", 3)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"")
    before = contents(tmp_path / "lake")
    told = "the output of a Spark stream" if name.startswith("_") else f"{name} is there, and no export has written it"
    with pytest.raises(UsageError, match=told) as raised:
        export(source, str(tmp_path / "lake"), sync=False)
    assert raised.value.hint == "choose another --output"
    assert contents(tmp_path / "lake") == before
    shutil.move(file, tmp_path / "_hidden.txt")
    (tmp_path / "lake" / ".hidden.parquet").write_bytes(b"")
    if not name.startswith("_"):
        assert export(source, str(tmp_path / "lake"), sync=False).messages == 3


def test_refused_outputs(tmp_path: Path) -> None:
    source = store(tmp_path / "store", 3)
    with pytest.raises(UsageError, match="lies in"):
        export(source, str(tmp_path / "store" / "lake"))
    with pytest.raises(UsageError, match="codec 'zip' is unknown"):
        export(source, str(tmp_path / "lake"), codec="zip")
    later = tmp_path / "later" / "_logdex"
    later.mkdir(parents=True)
    (later / "000001.json").write_text('{"logdex_export": 3}')
    with pytest.raises(UsageError, match="is of version 3"):
        export(source, str(tmp_path / "later"))


def test_a_broker_s_own_topics_are_left_out_and_told(tmp_path: Path) -> None:
    source = partition(tmp_path / "logs", 0, 2)
    with Log.open(str(tmp_path / "logs" / "__consumer_offsets-0")) as log:
        log.append([Record(key=b"k", value=b"v")])
    report = export(source, str(tmp_path / "lake"))
    assert report.messages == 2
    (told,) = report.notes
    assert told.startswith("left out: __consumer_offsets, which")
    named = export(replace(source, topic="__consumer_offsets"), str(tmp_path / "own"))
    assert (named.messages, named.notes) == (1, [])
