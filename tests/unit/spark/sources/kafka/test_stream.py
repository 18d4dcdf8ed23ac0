"""Streams of `kafka_log` without Spark: offsets, limits, a log that grows, rolls and loses
segments, transactions."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path

import pytest

from logdex.errors import CorruptError, UsageError
from logdex.kafka.batch.record import Record
from logdex.kafka.files.metadata_files import PartitionMetadata
from logdex.kafka.log.log import Log
from logdex.spark.sources.kafka.stream import LogDirStream
from logdex.spark.sources.stream_table import Limits, StreamProgress
from tests.unit.spark.sources.kafka.small_logs import START_MS, places, write
from tests.unit.spark.sources.tables import batches_of, require_refused, rows_between, unmarked


def stream(path: Path | str, **options: str) -> LogDirStream:
    return LogDirStream({"path": str(path), "startingOffsets": "earliest", **options})


ENDS = {"events": {"0": 5}, "orders": {"0": 20, "1": 10}}
BEGINS = {"events": {"0": 0}, "orders": {"0": 0, "1": 0}}


def test_offsets(logs: Path) -> None:
    assert stream(logs).latest() == (BEGINS, ENDS)
    assert stream(logs).initial() == BEGINS
    assert LogDirStream({"path": str(logs)}).initial() == ENDS
    assert stream(logs, startingOffsets="latest").initial() == ENDS
    given = stream(logs, subscribe="orders", startingOffsets='{"orders": {"0": -1, "1": 3}}').initial()
    assert given == {"orders": {"0": 20, "1": 3}}
    by_time = stream(logs, subscribe="events", startingTimestamp=str(START_MS + 25)).initial()
    assert by_time == {"events": {"0": 3}}


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({}, 35),
        ({"maxOffsetsPerTrigger": "7"}, 7),
        ({"maxOffsetsPerTrigger": "1"}, 3),
        ({"maxBytesPerTrigger": "1000"}, 8),
        ({"maxBytesPerTrigger": "1"}, 3),
        ({"maxBytesPerTrigger": "1m"}, 35),
        ({"maxOffsetsPerTrigger": "30", "maxBytesPerTrigger": "1000"}, 8),
    ],
)
def test_limits(logs: Path, options: dict[str, str], most: int) -> None:
    source = stream(logs, columns="topic,partition,offset", **options)
    batches = batches_of(source, source.initial())
    found = places([row for batch in batches for row in batch])
    assert found == {"orders-0": [*range(20)], "orders-1": [*range(10)], "events-0": [*range(5)]}
    assert max(map(len, batches)) <= most


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets is for batch reads"),
        ({"maxBytesPerTrigger": "0"}, "a number of bytes"),
        ({"minOffsetsPerTrigger": "0"}, "whole number of 1 or more"),
        ({"kafka.group.id": "g"}, "asks no broker: leave it out"),
        ({"maxOffsetsPerTriger": "1"}, "did you mean maxOffsetsPerTrigger"),
    ],
)
def test_wrong_options(logs: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        stream(logs, **options)


def test_a_growing_log(tmp_path: Path) -> None:
    root = write(tmp_path / "logs", "t-0", 1)
    source = stream(root)
    start, values = source.initial(), []
    with Log.open(str(root / "t-0"), segment_bytes=400) as log:
        for _ in range(1, 30):
            end = StreamProgress(source).advance(start, Limits())
            rows = rows_between(source, start, end)
            assert rows_between(source, start, end) == rows
            values += [row["offset"] for row in rows]
            start = end
            log.append([Record(b"k", b"v" * 50, START_MS)])
        progress = StreamProgress(source)
        progress.set_target()
        log.append([Record(b"k", b"behind the target", START_MS)])
        end = progress.advance(start, Limits())
        assert values + [row["offset"] for row in rows_between(source, start, end)] == [*range(30)]
        assert progress.advance(end, Limits()) == end
    write(root, "u-0", 4)
    (rows,) = batches_of(source, end)
    assert places(rows) == {"t-0": [30], "u-0": [0, 1, 2, 3]}, "a new partition is read from its beginning"


def test_a_batch_waits_for_its_minimum(tmp_path: Path) -> None:
    root = write(tmp_path / "logs", "t-0", 2)
    source = stream(root, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="6")
    progress = StreamProgress(source)
    ends = [progress.advance(source.initial(), source.limits)]
    for number in range(12):
        write(root, f"t-{number % 2}", 1)
        ends.append(progress.advance(ends[-1], source.limits))
    totals = [sum(unmarked(each)["t"].values()) for each in ends]
    assert totals == [2, 2, 2, 2, 2, 7, 7, 7, 7, 7, 12, 12, 12]


def test_a_log_that_loses_records(tmp_path: Path) -> None:
    root = write(tmp_path / "logs", "t-0", 9, segment_bytes=200)
    first = int(sorted((root / "t-0").glob("*.log"))[1].stem)
    for path in (root / "t-0").glob(f"{0:020d}.*"):
        path.unlink()
    start = {"t": {"0": 0}}
    with pytest.raises(UsageError, match=rf"t 0 begins at offset {first} now, the stream was at 0 .*failOnDataLoss"):
        batches_of(stream(root), start)
    (rows,) = batches_of(stream(root, failOnDataLoss="false"), start)
    assert places(rows) == {"t-0": [*range(first, 9)]}
    with Log.open(str(root / "t-0")) as log:
        log.truncate_to(6)
    with pytest.raises(UsageError, match="t 0 ends at offset 6 now, the stream was at 9"):
        batches_of(stream(root), {"t": {"0": 9}})
    end = StreamProgress(stream(root, failOnDataLoss="false")).advance({"t": {"0": 9}}, Limits())
    assert unmarked(end) == {"t": {"0": 6}}
    with pytest.raises(UsageError, match="ends before offset 6, and offset 8 is wanted last"):
        rows_between(stream(root), {"t": {"0": 2}}, {"t": {"0": 9}})
    shutil.rmtree(root / "t-0")
    write(root, "u-0", 1)
    with pytest.raises(UsageError, match=r"t 0 was deleted meanwhile, or .* stream of another path: .* at offset 9"):
        batches_of(stream(root), {"t": {"0": 9}})
    with pytest.raises(UsageError, match="t-0 was deleted meanwhile"):
        rows_between(stream(root), {"t": {"0": 2}}, {"t": {"0": 9}})


def test_committed_records(tmp_path: Path) -> None:
    """An open transaction holds the stream; an aborted one is left out when it ends."""
    (tmp_path / "logs").mkdir()
    source = stream(tmp_path / "logs", **{"isolation.level": "read_committed"})
    with Log.open(str(tmp_path / "logs" / "t-0")) as log:
        log.append([Record(b"a", b"1")])
        log.append([Record(b"b", b"2")], producer_id=7, producer_epoch=0, sequence=0, transactional=True)
        log.append([Record(b"c", b"3")])
        end = StreamProgress(source).advance(source.initial(), Limits())
        assert unmarked(end) == {"t": {"0": 1}}
        log.append_end_marker(7, 0, commit=False)
        (rows,) = batches_of(source, end)
        assert [row["key"] for row in rows] == [b"c"]


def test_damage(tmp_path: Path) -> None:
    root = write(tmp_path / "logs", "t-0", 10)
    path = root / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    size = len(data) // 10
    data[4 * size + size // 2] ^= 1
    path.write_bytes(data)
    source = stream(root, maxOffsetsPerTrigger="4")
    end = StreamProgress(source).advance(source.initial(), source.limits)
    assert places(rows_between(source, source.initial(), end)) == {"t-0": [0, 1, 2, 3]}
    with pytest.raises(CorruptError, match="PERMISSIVE"):
        batches_of(source, end)
    lenient = stream(root, mode="PERMISSIVE", maxOffsetsPerTrigger="4")
    rows = [row for batch in batches_of(lenient, lenient.initial()) for row in batch]
    assert [row["offset"] for row in rows if row["_corrupt"] is None] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    told = [row["_corrupt"] for row in rows if row["_corrupt"] is not None]
    assert len({each["begin"] for each in told}) == 1, (
        "the batch before may tell of it too, as it cannot see what it was"
    )


def test_other_data_of_one_name(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / name, "t-0", 3)
    (tmp_path / "b" / "meta.properties").write_text("version=1\ncluster.id=other\nnode.id=1\n")
    with pytest.raises(UsageError, match="make a stream of each directory"):
        stream(f"{tmp_path}/*").latest()


IDS = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


def topic_with_id(root: Path, number: int, count: int) -> Path:
    shutil.rmtree(root / "t-0", ignore_errors=True)
    write(root, "t-0", count)
    PartitionMetadata(uuid.UUID(int=number)).write(str(root / "t-0" / "partition.metadata"))
    return root


def test_a_topic_created_again(tmp_path: Path) -> None:
    """Its first records are not taken for those that the stream has read."""
    root = topic_with_id(tmp_path / "logs", 1, 5)
    source = stream(root)
    end = StreamProgress(source).advance(source.initial(), Limits())
    assert unmarked(end) == {"t": {"0": 5, "topicId": IDS[0]}}
    topic_with_id(root, 2, 9)
    told = f"t was deleted and created again: the stream has read the topic with the id {IDS[0]}, there is {IDS[1]}"
    with pytest.raises(UsageError, match=told) as raised:
        StreamProgress(source).advance(end, Limits())
    assert "failOnDataLoss" in str(raised.value.hint)
    lenient = stream(root, failOnDataLoss="false", maxOffsetsPerTrigger="5")
    progress = StreamProgress(lenient)
    later = progress.advance(end, lenient.limits)
    assert (unmarked(later), len(progress.notes)) == ({"t": {"0": 5, "topicId": IDS[1]}}, 1)
    batches = batches_of(lenient, end)
    assert [places(rows) for rows in batches] == [{"t-0": [0, 1, 2, 3, 4]}, {"t-0": [5, 6, 7, 8]}]


def test_a_batch_of_a_topic_created_again_before_it_was_read(tmp_path: Path) -> None:
    root = topic_with_id(tmp_path / "logs", 1, 5)
    start = stream(root).initial()
    end = StreamProgress(stream(root)).advance(start, Limits())
    topic_with_id(root, 2, 9)
    with pytest.raises(UsageError, match="t was deleted and created again"):
        rows_between(stream(root), start, end)
    assert rows_between(stream(root, failOnDataLoss="false"), start, end) == []


def test_a_checkpoint_without_topic_ids(tmp_path: Path) -> None:
    """An older Logdex has written it: the stream goes on, and knows the id from then on."""
    root = topic_with_id(tmp_path / "logs", 1, 9)
    (rows,) = batches_of(stream(root), {"t": {"0": 5}})
    assert places(rows) == {"t-0": [5, 6, 7, 8]}
    end = StreamProgress(stream(root)).advance({"t": {"0": 9}}, Limits())
    assert unmarked(end) == {"t": {"0": 9, "topicId": IDS[0]}}
    assert rows_between(stream(root), {"t": {"0": 9}}, end) == []


def other_records(root: Path, count: int) -> Path:
    """The log directory with other records in place of those of its only partition."""
    shutil.rmtree(root / "t-0")
    with Log.open(str(root / "t-0")) as log:
        for _ in range(count):
            log.append([Record(b"other", b"v" * 50, START_MS)])
    return root


@pytest.mark.parametrize("count", [5, 8])
@pytest.mark.parametrize("limit", ["3", "100"])
def test_another_log_without_ids(tmp_path: Path, count: int, limit: str) -> None:
    """It is known by the last batch that was read, also if it has as many records."""
    root = write(tmp_path / "logs", "t-0", 5)
    source = stream(root, maxOffsetsPerTrigger=limit)
    start = source.initial()
    end = json.loads(json.dumps(StreamProgress(source).advance(start, source.limits)))
    last = end["t"]["0"] - 1
    assert batches_of(stream(root), end) == ([] if last == 4 else [rows_between(source, end, source.latest()[1])])
    other_records(root, count)
    told = f"t 0: the batch at offsets {last} to {last} is not the one that was read: it is another log"
    require_refused(source, start, end, told)
    lenient = stream(root, failOnDataLoss="false")
    assert rows_between(lenient, start, end) == [], "what was planned is gone"
    (rows,) = batches_of(lenient, end)
    assert [row["key"] for row in rows] == [b"other"] * count
    progress = StreamProgress(lenient)
    progress.advance(progress.advance(end, Limits()), Limits())
    assert len(progress.notes) == 1
    unknown = unmarked(end)
    found = [row["offset"] for rows in batches_of(stream(root), unknown) for row in rows]
    assert found == [*range(last + 1, count)], "a checkpoint without marks goes on"


def test_records_that_were_replaced_in_the_same_topic(tmp_path: Path) -> None:
    """As a new leader does that was behind: the stream goes on where it was."""
    root = topic_with_id(tmp_path / "logs", 1, 5)
    end = StreamProgress(stream(root)).advance(stream(root).initial(), Limits())
    with Log.open(str(root / "t-0")) as log:
        log.truncate_to(3)
        for _ in range(5):
            log.append([Record(b"other", b"v", START_MS)], leader_epoch=4)
    with pytest.raises(UsageError, match=r"t 0: the batch .* under leader epoch 4: what is in place of it is not read"):
        StreamProgress(stream(root)).advance(end, Limits())
    (rows,) = batches_of(stream(root, failOnDataLoss="false"), end)
    assert places(rows) == {"t-0": [5, 6, 7]}


def test_marked_records_that_retention_or_a_compaction_removed(tmp_path: Path) -> None:
    root = write(tmp_path / "logs", "t-0", 5, segment_bytes=200)
    source = stream(root)
    end = StreamProgress(source).advance(source.initial(), Limits())
    with Log.open(str(root / "t-0"), segment_bytes=200) as log:
        log.append([Record(b"k%d" % number, b"newer", START_MS + 100) for number in range(5)])
        log.delete_records(5)
    (rows,) = batches_of(source, end)
    assert places(rows) == {"t-0": [5, 6, 7, 8, 9]}
    with Log.open(str(root / "t-0"), segment_bytes=200, cleanup_policy="compact") as log:
        later = StreamProgress(source).advance(end, Limits())
        log.append([Record(b"k%d" % number, b"newest", START_MS + 200) for number in range(5)])
        log.roll()
        log.compact()
    (rows,) = batches_of(source, later)
    assert places(rows) == {"t-0": [10, 11, 12, 13, 14]}
