"""Named readers of partitions whose records are written anew: where they go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logdex.convert.filter.logs import filter_logs
from logdex.convert.report import ConvertReport
from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.translate import convert
from logdex.kafka.batch.record import Record
from logdex.kafka.files.reader_positions import read_position, reader_names
from logdex.kafka.log.log import Log
from logdex.kafka.snapshot.log_dir_snapshot import open_kafka
from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager

COUNT = 20
READ = {"audit": 7, "far": COUNT, "new": 0}
NEW: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 16, "max_hash_slot_num": 7, "max_index_num": 12}


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    path = tmp_path / "events-0"
    with Log.open(str(path)) as log:
        log.append([Record(b"%d" % at, b"v", 1000 + at) for at in range(COUNT)])
        for name, offset in READ.items():
            with log.reader(name) as reader:
                reader.seek(offset)
                reader.commit()
    return path


def filtered(path: Path, output: Path, passes: Callable[..., bool] | None, **options: Any) -> ConvertReport:
    with open_kafka(str(path)) as snapshot:
        return filter_logs(snapshot.scan(), str(output), passes, source=str(path), sync=False, **options)


def positions(path: Path) -> dict[str, int | None]:
    return {name: read_position(str(path), name) for name in reader_names(str(path))}


def next_key(path: Path, name: str) -> bytes | None:
    with Log.open(str(path)) as log, log.reader(name) as reader:
        found = reader.poll(1)
    return found[0].key if found else None


def test_a_filter_keeps_positions(partition: Path, tmp_path: Path) -> None:
    report = filtered(partition, tmp_path / "out", lambda _, record: record.offset < 15)
    assert positions(tmp_path / "out" / "events-0") == READ | {"far": 15}
    assert (report.notes, report.losses) == ([], [])
    assert next_key(tmp_path / "out" / "events-0", "audit") == b"7"
    assert next_key(tmp_path / "out" / "events-0", "far") is None


def test_a_filter_with_new_offsets_translates_them(partition: Path, tmp_path: Path) -> None:
    filtered(partition, tmp_path / "out", lambda _, record: record.offset % 3 == 2, new_offsets=True)
    assert positions(tmp_path / "out" / "events-0") == {"audit": 2, "far": 6, "new": 0}
    assert next_key(tmp_path / "out" / "events-0", "audit") == b"8"


@pytest.mark.parametrize("new_offsets", [False, True])
def test_readers_of_a_partition_without_records_are_told(partition: Path, tmp_path: Path, new_offsets: bool) -> None:
    report = filtered(partition, tmp_path / "out", lambda *_: False, new_offsets=new_offsets)
    (note,) = report.notes
    assert note == "events-0 has no records now: its readers left out: audit, far, new"


def test_one_file_has_no_readers(partition: Path, tmp_path: Path) -> None:
    filtered(partition / f"{0:020d}.log", tmp_path / "out", None)
    assert positions(tmp_path / "out" / "events-0") == {}


def test_they_become_groups_of_a_store(partition: Path, tmp_path: Path) -> None:
    with Log.open(str(partition)) as log:
        log.delete_records(5)
    report = convert(LogDirSource(str(partition)), str(tmp_path / "store"), settings=NEW, sync=False)
    manager = ConsumerOffsetManager(str(tmp_path / "store"))
    told = {name: manager.query_offset(name, "events", 0) for name in READ}
    assert told == {"audit": 2, "far": COUNT - 5, "new": 0}
    assert (report.groups, report.losses) == (3, [])


def test_a_position_that_cannot_be_read_is_told(partition: Path, tmp_path: Path) -> None:
    (partition / ".logdex-readers" / "audit.json").write_text("{")
    for report in (
        filtered(partition, tmp_path / "out", None),
        convert(LogDirSource(str(partition)), str(tmp_path / "store"), settings=NEW, sync=False),
    ):
        (note,) = report.notes
        assert "audit.json" in note
        assert note.endswith("not taken over")
