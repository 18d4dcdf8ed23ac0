"""Conversions between formats: offsets, committed offsets, what is refused, kills."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.sources.rocketmq import StoreSource
from logdex.convert.sources.source import LogSource
from logdex.convert.translate import convert
from logdex.convert.translate.names import MESSAGE_HEADER
from logdex.errors import UsageError
from logdex.io.env import Env
from logdex.jobs.tasks import LocalRunner
from logdex.kafka import Log, Record
from logdex.kafka.directory.log_dir import KafkaLogDir
from logdex.kafka.files.checkpoints import TopicPartition
from logdex.kafka.internal_topics.consumer_offsets import TOPIC, offset_commit, partition_for
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.testing import Fault, FaultEnv, Killed
from logdex.testing.store_builder import make_message, write_commit_log
from tests.directories import contents
from tests.examples import some
from tests.unit.rocketmq.small_stores import CONFIG, FILE_SIZE, build, message

SETTINGS = {"mapped_file_size_commit_log": FILE_SIZE, "rocketmq_version": "5.5.0"}
NEW: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 16, "max_hash_slot_num": 7, "max_index_num": 12}


def store(root: Path, numbers: list[int]) -> StoreSource:
    messages = [message(number, keys=f"k-{number}", tag="A", topic=b"%RETRY%g") for number in numbers]
    write_commit_log(str(root), messages, FILE_SIZE)
    return StoreSource(str(root), settings=SETTINGS)


def test_a_queue_keeps_its_offsets(tmp_path: Path) -> None:
    source = store(tmp_path / "store", [5, 6, 9, 10])
    ConsumerOffsetManager(str(tmp_path / "store")).commit_offset("g", "%RETRY%g", 0, 9)
    report = convert(source, str(tmp_path / "logs"), sync=False)
    assert (report.messages, report.files, report.groups, report.losses, report.notes) == (4, 1, 1, [], [])
    with LogDirSnapshot(str(tmp_path / "logs")) as logs:
        records = list(logs.partition("_25RETRY_25g", 0).scan())
        assert logs.partition("_25RETRY_25g", 0).log_start_offset == 5
    assert [record.offset for record in records] == [5, 6, 9, 10]
    assert (records[0].key, records[0].value) == (b"k-5", b"body 5")
    assert [name for name, _ in records[0].headers] == ["UNIQ_KEY", "KEYS", "TAGS", MESSAGE_HEADER]
    committed = KafkaLogDir(str(tmp_path / "logs")).consumer_offsets().offsets
    assert {key: each.offset for key, each in committed.items()} == {("g", TopicPartition("_25RETRY_25g", 0)): 9}
    assert KafkaLogDir(str(tmp_path / "logs")).clean_shutdown() is not None


def test_a_group_before_the_first_message_begins_there(tmp_path: Path) -> None:
    """With an offset that the partition does not have, Kafka's consumer goes to its end."""
    source = store(tmp_path / "store", [5, 6])
    ConsumerOffsetManager(str(tmp_path / "store")).commit_offset("g", "%RETRY%g", 0, 2)
    convert(source, str(tmp_path / "logs"), sync=False)
    committed = KafkaLogDir(str(tmp_path / "logs")).consumer_offsets().offsets
    assert [each.offset for each in committed.values()] == [5]


def test_a_queue_that_began_anew_goes_on_behind(tmp_path: Path) -> None:
    report = convert(store(tmp_path / "store", [3, 4, 0, 1]), str(tmp_path / "logs"), sync=False)
    with LogDirSnapshot(str(tmp_path / "logs")) as logs:
        assert [record.offset for record in logs.partition("_25RETRY_25g", 0).scan()] == [3, 4, 5, 6]
    assert report.notes == ["offsets were moved up where queues began anew: %RETRY%g 0"]


def test_records_of_transactions(tmp_path: Path) -> None:
    """An open one is a loss, an aborted one a remark."""
    with Log.open(str(tmp_path / "logs" / "t-0")) as log:
        log.append([Record(value=b"0")])
        for producer, commit in ((1, False), (2, True)):
            records = [Record(value=b"%d" % producer), Record(value=b"more")]
            log.append(records, producer_id=producer, producer_epoch=0, transactional=True)
            log.append_end_marker(producer, 0, commit=commit)
    source, told = LogDirSource(str(tmp_path / "logs")), "t-0: 2 records of aborted transactions left out"
    report = convert(source, str(tmp_path / "whole"), settings=NEW, sync=False)
    assert (report.messages, report.losses) == (3, [])
    assert [note.partition(",")[0] for note in report.notes] == [told]
    with Log.open(str(tmp_path / "logs" / "t-0")) as log:
        log.append([Record(value=b"open")], producer_id=3, producer_epoch=0, transactional=True)
        log.append([Record(value=b"behind it")])
    report = convert(source, str(tmp_path / "more"), settings=NEW, sync=False)
    assert (report.messages, report.lossy) == (3, True)
    assert "offsets 7 to 8 are not read: a transaction is open since offset 7 (--isolation-level" in report.losses[0]
    assert [note.partition(",")[0] for note in report.notes] == [told]


def test_committed_offsets_of_what_is_not_converted(tmp_path: Path) -> None:
    """A partition that is left out is not one without records."""
    root = tmp_path / "logs"
    for name, count in (("orders-0", 2), ("audit-0", 2), ("empty-0", 0)):
        with Log.open(str(root / name)) as log:
            for _ in range(count):
                log.append([Record(value=b"v")])
    with Log.open(str(root / f"{TOPIC}-{partition_for('g')}")) as log:
        log.append([offset_commit("g", TopicPartition(name, 0), 1, 1) for name in ("orders", "audit", "empty")])
    everything = convert(LogDirSource(str(root)), str(tmp_path / "all"), settings=NEW, sync=False)
    assert [note for note in everything.notes if "offsets of" in note] == [
        "g: offsets of empty-0, which has no records"
    ]
    one = convert(LogDirSource(str(root), topic="orders"), str(tmp_path / "one"), settings=NEW, sync=False)
    assert sorted(note for note in one.notes if "offsets of" in note) == [
        f"g: offsets of {name}-0, which is not converted" for name in ("audit", "empty")
    ]


def test_records_below_the_log_start_are_counted(tmp_path: Path) -> None:
    """No consumer reads them, so they are no loss."""
    with Log.open(str(tmp_path / "logs" / "t-0")) as log:
        for number in range(6):
            log.append([Record(value=b"%d" % number)] * 2)
        log.delete_records(5)
    report = convert(LogDirSource(str(tmp_path / "logs")), str(tmp_path / "new"), settings=NEW, sync=False)
    assert (report.messages, report.losses) == (7, [])
    told = "t-0: 5 records below the log start offset 5 left out, which no consumer reads"
    assert [note for note in report.notes if note.endswith(told)] == report.notes[:1]


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    messages = [
        message(0),
        message(1, tag="A"),
        make_message(queue_offset=2, properties=[(b"a", b"\xff"), (b"b", b"\xfe")]),
    ]
    write_commit_log(str(tmp_path / "store"), messages, FILE_SIZE)
    report = convert(StoreSource(str(tmp_path / "store"), settings=SETTINGS), str(tmp_path / "logs"), sync=False)
    assert report.notes == ["1 message has properties with \\x, which may stand for bytes that are not UTF-8"]


def test_topics_that_cannot_name_a_folder(tmp_path: Path) -> None:
    """A CommitLog can have messages of them, Kafka allows no topic of that name, and a store that
    is written has no folder for them."""
    topics = [b".", b"..", b"a.b"]
    write_commit_log(str(tmp_path / "store"), [message(place, topic=each) for place, each in enumerate(topics)], 2048)
    report = convert(StoreSource(str(tmp_path / "store"), settings=SETTINGS), str(tmp_path / "logs"), sync=False)
    assert (report.messages, report.losses, report.notes) == (3, [], [])
    with LogDirSnapshot(str(tmp_path / "logs")) as logs:
        assert logs.topics() == {"_2E": [0], "_2E.": [0], "a.b": [0]}
    back = convert(LogDirSource(str(tmp_path / "logs")), str(tmp_path / "back"), settings=NEW, sync=False)
    assert (back.messages, back.losses) == (3, [])
    assert back.notes == [
        "the topic '.' stays _2E: no folder of a store can be named '.'",
        "the topic '..' stays _2E.: no folder of a store can be named '..'",
    ]
    with StoreSnapshot(str(tmp_path / "back"), **NEW) as snapshot:
        assert {each.topic: each.body for each in snapshot} == {
            b"_2E": b"body 0",
            b"_2E.": b"body 1",
            b"a.b": b"body 2",
        }
        assert snapshot.topics() == {"_2E": [0], "_2E.": [0], "a.b": [0]}


def test_topics_without_queues_are_converted_too(tmp_path: Path) -> None:
    messages = [message(number // 2, topic=(b"kept", b"gone")[number % 2]) for number in range(6)]
    root = build(tmp_path / "store", messages)
    shutil.rmtree(root / "consumequeue" / "gone")
    settings = {**SETTINGS, "mapped_file_size_consume_queue": CONFIG.mapped_file_size_consume_queue}
    source, progress = StoreSource(str(root), settings=settings), [(0, 0)]
    runner = LocalRunner(lambda messages, size_bytes: progress.append((messages, size_bytes)))
    report = convert(source, str(tmp_path / "logs"), runner, sync=False)
    assert (report.messages, report.files, report.losses) == (6, 2, [])
    assert runner.tasks == 3  # one to find the topics, and one for each of them
    assert progress[-1] == (6, report.bytes // 2 * 2)  # each task reads the log, and counts half of it


def test_records_become_messages(tmp_path: Path) -> None:
    with Log.open(str(tmp_path / "logs" / "events-2")) as log:
        log.truncate_fully_and_start_at(7)
        log.append([Record(key=b"k", value=b"v", timestamp_ms=1000, headers=(("trace", b"1"),))])
        log.append([Record(key=b"a b", value=None, timestamp_ms=2000)])
    report = convert(LogDirSource(str(tmp_path / "logs")), str(tmp_path / "store"), settings=NEW, sync=False)
    assert (report.messages, report.losses) == (2, [])
    with StoreSnapshot(str(tmp_path / "store"), **NEW) as found:
        first, second = found.get_message("events", 2, 0, 32).messages
        assert (first.body, first.keys, first.properties[b"trace"]) == (b"v", [b"k"], b"1")
        assert (first.store_timestamp_ms, first.born_timestamp_ms) == (1000, 1000)
        assert (second.body, second.keys) == (b"", [])


def test_what_is_refused(tmp_path: Path) -> None:
    source = store(tmp_path / "store", [0])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(UsageError, match="is not empty"):
        convert(source, str(tmp_path / "full"))
    with pytest.raises(UsageError, match="lies in"):
        convert(source, str(tmp_path / "store" / "logs"))
    messages = [message(0, topic=topic) for topic in (b"a%", b"a_25")]
    write_commit_log(str(tmp_path / "two"), messages, FILE_SIZE)
    with pytest.raises(UsageError, match="both become a_25"):
        convert(StoreSource(str(tmp_path / "two"), settings=SETTINGS), str(tmp_path / "out"), sync=False)


@pytest.mark.parametrize("kind", ["store", "logs"])
def test_killed_and_run_again(kind: str, tmp_path: Path) -> None:
    source: LogSource = store(tmp_path / "store", [0, 1])
    if kind == "logs":
        convert(source, str(tmp_path / "logs"), sync=False)
        source = LogDirSource(str(tmp_path / "logs"))
    settings = NEW if kind == "logs" else None
    convert(source, str(tmp_path / "right"), settings=settings, sync=False)
    right = contents(tmp_path / "right")
    counting = FaultEnv(str(tmp_path))
    convert(source, str(tmp_path / "counted"), settings=settings, env=counting, sync=False)
    places = range(1, len(counting.log) + 1)
    killed, chosen = 0, list(some(places, 20 if kind == "store" else 60))
    for at in chosen:
        env = FaultEnv(str(tmp_path), Fault(at))
        output = tmp_path / f"out-{at}"
        try:
            convert(source, str(output), settings=settings, env=env, sync=False)
        except Killed:
            killed += 1
            env.release()
            convert(source, str(output), settings=settings, env=Env(), sync=False)
        else:
            assert not env.hits  # one run makes a few calls less than another
        assert contents(output) == right, counting.log[at - 1]
    assert killed > len(chosen) // 2
