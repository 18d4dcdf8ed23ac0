"""Imports keep the offsets and the order of rows, whichever files they lie in."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from logdex.convert.export import export
from logdex.convert.load import in_order, load
from logdex.convert.sources.kafka import LogDirSource
from logdex.errors import UsageError
from logdex.kafka import Log, Record
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.examples import cases
from tests.unit.convert.test_load import table
from tests.unit.convert.test_translate import NEW

DAY_MS = 86_400_000


def records_of(path: Path) -> list[Any]:
    with LogDirSnapshot(str(path)) as logs:
        return [(r.offset, r.timestamp_ms, r.key, r.value) for r in logs.scan()]


def offsets_of(path: Path) -> list[tuple[int, bytes | None]]:
    return [(offset, value) for offset, _, _, value in records_of(path)]


def messages_of(path: Path) -> list[tuple[int, bytes]]:
    with StoreSnapshot(str(path), **NEW) as found:
        return [(m.queue_offset, m.body) for m in found.scan()]


def test_days_that_do_not_rise_with_the_offsets(tmp_path: Path) -> None:
    with Log.open(str(tmp_path / "logs" / "orders-0")) as log:
        for number, day in enumerate((1, 2, 0, 2, 1)):
            log.append([Record(key=b"k", value=b"%d" % number, timestamp_ms=1_700_000_000_000 + day * DAY_MS)])
    export(LogDirSource(str(tmp_path / "logs")), str(tmp_path / "lake"), sync=False)
    load(str(tmp_path / "lake"), str(tmp_path / "back"), "kafka", sync=False)
    assert records_of(tmp_path / "back") == records_of(tmp_path / "logs")
    assert [offset for offset, *_ in records_of(tmp_path / "back")] == [0, 1, 2, 3, 4]


def test_rows_of_a_file_that_is_not_sorted(tmp_path: Path) -> None:
    path = table(tmp_path, {"topic": ["a"] * 4, "offset": [3, 1, 2, 0], "value": ["3", "1", "2", "0"]})
    load(path, str(tmp_path / "logs"), "kafka", sync=False)
    assert offsets_of(tmp_path / "logs") == [(0, b"0"), (1, b"1"), (2, b"2"), (3, b"3")]


@pytest.mark.parametrize("files", [[[5, 5, 6, 7]], [[5, 6], [7, 9], [6, 8]]])
def test_an_offset_that_stands_twice_is_refused(tmp_path: Path, files: list[list[int]]) -> None:
    for number, offsets in enumerate(files):
        table(
            tmp_path / "in",
            {"topic": ["a"] * len(offsets), "offset": offsets, "value": ["v"] * len(offsets)},
            f"{number}.parquet",
        )
    with pytest.raises(UsageError, match=r"parquet.*: a-0 has the offset [56] twice"):
        load(str(tmp_path / "in"), str(tmp_path / "logs"), "kafka", sync=False)
    assert not list((tmp_path / "logs").glob("*"))


def test_other_offsets_that_are_refused(tmp_path: Path) -> None:
    path = table(tmp_path / "in", {"topic": ["a"], "offset": [-1]})
    with pytest.raises(UsageError, match="the column offset has -1"):
        load(path, str(tmp_path / "logs"), "kafka", sync=False)
    table(tmp_path / "some", {"topic": ["a"], "offset": [0]}, "1.parquet")
    table(tmp_path / "some", {"topic": ["a"], "value": ["x"]}, "2.parquet")
    with pytest.raises(UsageError, match=r"2\.parquet has no column offset, which other files have"):
        load(str(tmp_path / "some"), str(tmp_path / "logs"), "kafka", sync=False)
    table(tmp_path / "names", {"topic": ["a%"], "value": ["x"]}, "1.parquet")
    table(tmp_path / "names", {"topic": ["a_25"], "value": ["x"]}, "2.parquet")
    with pytest.raises(UsageError, match="both become a_25"):
        load(str(tmp_path / "names"), str(tmp_path / "logs"), "kafka", sync=False)


def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are read at once, and few files are open at once."""
    monkeypatch.setattr(in_order, "_READING_BYTES", 1 << 12)
    monkeypatch.setattr(in_order, "_OPEN_MAX", 2)


@pytest.mark.parametrize("seed", cases(range(6), 6))
def test_any_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Rows of two partitions, with gaps, in seven files of several row groups, which are sorted or
    not."""
    small_pieces(monkeypatch)
    chance = random.Random(seed)
    rows = [(partition, offset) for partition in (0, 1) for offset in chance.sample(range(3_000), 700)]
    chance.shuffle(rows)
    for number in range(7):
        mine = rows[number::7]
        if seed % 2:
            mine.sort()
        columns = {
            "partition": [partition for partition, _ in mine],
            "offset": [offset for _, offset in mine],
            "value": [f"{partition}-{offset}" for partition, offset in mine],
        }
        table(tmp_path / "in" / "topic=a", columns, f"{number}.parquet", row_group_size=60)
    load(str(tmp_path / "in"), str(tmp_path / "logs"), "kafka", sync=False)
    expected = [(offset, b"%d-%d" % (partition, offset)) for partition, offset in sorted(rows)]
    assert offsets_of(tmp_path / "logs") == expected


def test_rows_that_wait_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_pieces(monkeypatch)
    monkeypatch.setattr(in_order, "WAITING_BYTES_MAX", 1 << 12)
    values = ["x" * 100] * 500
    path = table(tmp_path, {"topic": ["a"] * 500, "offset": list(range(500)), "value": values}, "sorted.parquet")
    load(path, str(tmp_path / "logs"), "kafka", sync=False)
    path = table(tmp_path / "x", {"topic": ["a"] * 500, "offset": list(range(500))[::-1], "value": values})
    with pytest.raises(UsageError, match=f"{path}: more than 0 MiB of rows stand before rows with a smaller offset"):
        load(path, str(tmp_path / "more"), "kafka", sync=False)


@pytest.mark.parametrize("column", ["queueOffset", "physicalOffset"])
def test_messages_keep_the_order_of_their_queue(tmp_path: Path, column: str) -> None:
    """Also where files differ in what they have. Places that stand twice are those of two
    brokers."""
    table(tmp_path / "in", {"topic": ["a"] * 3, column: [50, 10, 40], "body": ["5", "1", "4"]}, "1.parquet")
    columns = {"topic": ["a"] * 3, column: [30, 10, 20], "body": ["3", "1", "2"], "queueId": [0, 0, 0]}
    table(tmp_path / "in", columns | {"tags": ["A"] * 3, "properties": ['{"p":"q"}'] * 3}, "2.parquet")
    report = load(str(tmp_path / "in"), str(tmp_path / "store"), "rocketmq", settings=NEW, sync=False)
    assert report.messages == 6
    bodies = [b"1", b"1", b"2", b"3", b"4", b"5"]
    assert messages_of(tmp_path / "store") == list(enumerate(bodies))
