"""What a clean close notes of a store: losses that the end of the log does not show are noticed at
opening, and no part of the log without keys is scanned again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from logdex.rocketmq import Message, MessageStore
from logdex.rocketmq.message_store import queue_recovery
from logdex.rocketmq.message_store.closed_state import FILE_NAME
from logdex.rocketmq.read.keys import index_coverage
from logdex.rocketmq.scan.log_walk import STEPS_MAX
from tests.directories import contents
from tests.examples import cases
from tests.unit.rocketmq.message_store.open_stores import crash, open_store, require_sound


@pytest.fixture(autouse=True)
def _short_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of the log's end sees few messages, as in a log of gigabytes."""
    monkeypatch.setattr(queue_recovery, "_TAIL_BYTES", 600)


def make(root: Path) -> dict[str, bytes]:
    """A store in which the topic `early` has no message near the log's end. Returns its
    ConsumeQueues."""
    with open_store(root) as store:
        for turn in range(25):
            store.put_message(Message("early", keys=f"e{turn}", queue_id=0))
        store.put_message(Message("early", queue_id=3))
        for turn in range(40):
            store.put_message(Message("late", keys=f"l{turn}", queue_id=turn % 2))
    return queues(root)


def queues(root: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(root).items() if name.startswith("consumequeue/")}


def remove(*names: str) -> Callable[[Path], None]:
    def harm(root: Path) -> None:
        for name in names:
            path = root / "consumequeue" / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return harm


def zero_the_end(root: Path) -> None:
    path = root / "consumequeue" / "early" / "0" / f"{400:020d}"
    path.write_bytes(path.read_bytes()[:40] + bytes(160))


HARMS = {
    "a queue": remove("early/0"),
    "a queue of one message": remove("early/3"),
    "a topic": remove("early"),
    "a queue's first file": remove(f"early/0/{0:020d}"),
    "a queue's last file": remove(f"early/0/{400:020d}"),
    "a queue's last entries": zero_the_end,
}


ENDS = ("closed", "killed", "continued by a broker", "closed by a broker", "killed at a broker")


@pytest.mark.parametrize(("harm", "ends"), cases(product(HARMS, ENDS), 4))
def test_lost_entries_are_noticed(harm: str, ends: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    make(root)
    noted = (root / FILE_NAME).read_bytes()
    if ends != "closed":
        store = open_store(root)
        for turn in range(9):
            store.put_message(Message("late", queue_id=turn % 2))
        store.dispatch()
        store.flush()
        if ends.startswith("killed"):
            crash(store)
        else:
            store.close()
            (root / FILE_NAME).write_bytes(noted)
    if ends.endswith(" a broker") and ends != "continued by a broker":
        (root / FILE_NAME).unlink()  # no broker writes it
    expected = queues(root)
    HARMS[harm](root)
    with open_store(root) as store:
        assert store.load_report.queues_from == 0
        assert queues(root) == expected
    with open_store(root) as store:
        assert store.load_report.queues_from == store.max_phy_offset
    require_sound(root)


def delete_topic(root: Path, topic: str) -> None:
    """As a broker deletes it."""
    config = root / "config" / "topics.json"
    raw = json.loads(config.read_text())
    del raw["topicConfigTable"][topic]
    config.write_text(json.dumps(raw))
    shutil.rmtree(root / "consumequeue" / topic)


def test_deleted_topics_lack_nothing(tmp_path: Path) -> None:
    """Nor do the other queues of one that was made again: none of their earlier messages comes
    back."""
    root = tmp_path / "store"
    make(root)
    noted = (root / FILE_NAME).read_bytes()
    delete_topic(root, "early")
    with open_store(root) as store:
        assert store.load_report.queues_from == store.max_phy_offset
        assert store.put_message(Message("early", queue_id=0)).queue_offset == 0
    (root / FILE_NAME).write_bytes(noted)
    for turn in range(3):
        if turn == 2:
            (root / FILE_NAME).unlink()  # a message of the earlier life of queue 0 tells of queue 3
        with open_store(root) as store:
            assert store.load_report.queues_from == store.max_phy_offset
            known = {(queue.topic, queue.queue_id): queue.max_offset for queue in store.queues()}
            assert known == {(b"early", 0): 1, (b"late", 0): 20, (b"late", 1): 20}


def test_expired_queues_lack_nothing(tmp_path: Path) -> None:
    root = tmp_path / "store"
    make(root)
    noted = (root / FILE_NAME).read_bytes()
    with open_store(root) as store:
        assert store.delete_expired(0, now_ms=1 << 50).queue_files
        begin = store.min_phy_offset
    (root / FILE_NAME).write_bytes(noted)
    with open_store(root) as store:
        assert store.load_report.queues_from == store.max_phy_offset > begin
        assert [queue.max_offset for queue in store.queues()] == [25, 1, 20, 20]


@pytest.mark.parametrize("where", ["consumerOffset.json", "delayOffset.json", "nowhere"])
def test_a_part_of_a_large_log_that_a_broker_closed(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a log with more messages than are looked at, only parts show what is lost; but what
    consumers have read was there."""
    monkeypatch.setattr(queue_recovery, "_PART_ENTRIES", 5)
    monkeypatch.setattr(queue_recovery, "_PARTS_MAX", 3)
    root, topic = tmp_path / "store", "early"
    with open_store(root) as store:
        for turn in range(40):
            if turn == 15:
                for _ in range(3):
                    level = 2 if where == "delayOffset.json" else 0
                    store.put_message(Message("early", queue_id=0, delay_level=level))
            store.put_message(Message("late", queue_id=turn % 2))
        for turn in range(40):
            store.put_message(Message(("late", "even")[turn % 2], queue_id=0))
    (root / FILE_NAME).unlink()
    if where == "consumerOffset.json":
        (root / "config" / where).write_text('{"offsetTable":{"early@G":{0:2,1:0},"gone@G":{0:7}}}')
    elif where == "delayOffset.json":
        topic = "SCHEDULE_TOPIC_XXXX"
        (root / "config" / where).write_text('{"offsetTable":{2:1,3:0}}')
    for lost, is_noticed in ((None, False), (topic, where != "nowhere"), ("even", True)):
        if lost is not None:
            shutil.rmtree(root / "consumequeue" / lost)
        with open_store(root) as store:
            assert store.load_report.queues_from == (0 if is_noticed else store.max_phy_offset)
            assert lost is None or (lost.encode() in {queue.topic for queue in store.queues()}) == is_noticed
        (root / FILE_NAME).unlink()


def test_many_messages_without_entries_are_left_to_a_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that a broker has deleted makes the first opening scan the log, and no later one."""
    root = tmp_path / "store"
    make(root)
    (root / FILE_NAME).unlink()
    delete_topic(root, "early")
    monkeypatch.setattr(queue_recovery, "_WALKED_MAX", 20)
    for is_scanned in (True, False):
        with open_store(root) as store:
            assert store.load_report.queues_from == (0 if is_scanned else store.max_phy_offset)
            assert [(queue.topic, queue.max_offset) for queue in store.queues()] == [(b"late", 20)] * 2
    (root / FILE_NAME).unlink()
    monkeypatch.setattr(queue_recovery, "_WALKED_MAX", 30)
    with open_store(root) as store:
        assert store.load_report.queues_from == store.max_phy_offset
    require_sound(root)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", "Infinity", '{"crc32":7}', "[" * 10_000, "another log's", "flipped"]
)
def test_a_file_that_says_nothing_of_this_log(text: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    make(root)
    if text == "another log's":
        with open_store(tmp_path / "other") as store:
            store.put_columns(pyarrow_rows(80))
        shutil.copy(tmp_path / "other" / FILE_NAME, root)
    elif text == "flipped":
        (root / FILE_NAME).write_text(
            (root / FILE_NAME).read_text().replace('"early/0": [0, 25]', '"early/0": [0, 95]')
        )
    else:
        (root / FILE_NAME).write_text(text)
    with open_store(root) as store:
        assert store.load_report.queues_from == store.max_phy_offset
        assert store.load_report.index_from == store.max_phy_offset
    require_sound(root)


def pyarrow_rows(count: int) -> Any:
    import pyarrow as pa

    return pa.table({"topic": ["other"] * count, "queue_id": [3] * count})


@pytest.mark.parametrize("lost", [slice(None), slice(0, 1), slice(1, 2), slice(-1, None)], ids=str)
def test_lost_entries_of_tags_are_noticed(lost: slice, tmp_path: Path) -> None:
    """Messages without keys have entries for their tags, from 5.4.0 on. A store of an earlier
    version has none, so the log alone does not say whether they are missing."""
    root = tmp_path / "store"
    with open_store(root, unique_keys=False) as store:
        for turn in range(150):
            store.put_message(Message("orders", tags=f"t{turn}", queue_id=0))
    expected = {name: data for name, data in contents(root).items() if name.startswith("index/")}
    for path in sorted((root / "index").iterdir())[lost]:
        path.unlink()
    with open_store(root, unique_keys=False) as store:
        for turn in range(150):
            assert len(store.query_message("orders", f"t{turn}", index_type="T").messages) == 1
    assert {name: data for name, data in contents(root).items() if name.startswith("index/")} == expected
    with open_store(root, unique_keys=False) as store:
        assert store.load_report.index_from == store.max_phy_offset
    require_sound(root)


# -- keys ----------------------------------------------------------------------------------------
def test_a_lost_file_with_the_tag_of_a_message_whose_key_is_in_another(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_store(root, unique_keys=False) as store:
        for turn in range(58):
            store.put_message(Message("orders", keys=f"k{turn}", queue_id=0))
        store.put_message(Message("orders", keys="last", tags="tag", queue_id=0))
    whole = contents(root)
    first, second = sorted((root / "index").iterdir())
    second.unlink()
    with open_store(root, unique_keys=False) as store:
        assert len(store.query_message("orders", "tag", index_type="T").messages) == 1
    assert [contents(root)[f"index/{path.name}"] == whole[f"index/{path.name}"] for path in (first, second)] == [1, 1]
    require_sound(root)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The parts of the log that are scanned for keys."""
    begun: list[int] = []
    scan_range = index_coverage.scan_range

    def counted(scanner: Any, log: Any, begin: int, end: int) -> Any:
        begun.append(begin)
        return scan_range(scanner, log, begin, end)

    monkeypatch.setattr(index_coverage, "scan_range", counted)
    return begun


def put_plain(store: MessageStore, count: int) -> None:
    for _ in range(count):
        store.put_message(Message("plain", queue_id=0))


def test_parts_without_keys_are_not_scanned_again(scans: list[int], tmp_path: Path) -> None:
    """Those inside an IndexFile, and those that a broker has put, are scanned once."""
    root, count = tmp_path / "store", STEPS_MAX + 10
    with open_store(root, unique_keys=False) as store:
        put_plain(store, count)
    noted = (root / FILE_NAME).read_bytes()
    with open_store(root, unique_keys=False) as store:
        assert store.load_report.index_from == store.max_phy_offset
        assert scans == []
        for part in range(2):
            for turn in range(60):  # as many as one IndexFile holds
                store.put_message(Message("keyed", keys=f"{part}-{turn}", queue_id=0))
            put_plain(store, count)
    (root / FILE_NAME).write_bytes(noted)
    for expected in (2, 0):
        scans.clear()
        with open_store(root, unique_keys=False) as store:
            assert store.load_report.index_from == store.max_phy_offset
            assert len(scans) == expected
    for path in sorted((root / "index").iterdir()):
        path.unlink()
        with open_store(root, unique_keys=False) as store:
            for turn in range(60):
                assert len(store.query_message("keyed", f"0-{turn}").messages) == 1
                assert len(store.query_message("keyed", f"1-{turn}").messages) == 1
        assert scans == []
    require_sound(root)
