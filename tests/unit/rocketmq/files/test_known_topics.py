"""Topics that the broker has deleted: topics.json no longer has them, and no ConsumeQueue file is
left."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from logdex.errors import StorageError
from logdex.rocketmq.files.known_topics import KnownTopics
from logdex.rocketmq.rebuild import rebuild, rebuild_on
from logdex.rocketmq.verify import verify
from logdex.testing import Fault, FaultEnv
from logdex.testing.store_builder import make_message
from tests.directories import contents
from tests.unit.rocketmq.rebuild.test_job import Serial, facts
from tests.unit.rocketmq.small_stores import CONFIG, build

TOPICS = '{"topicConfigTable":{"Kept":{"topicName":"Kept"},"%RETRY%G":{"topicName":"%RETRY%G"}}}'
NAMES = [b"Kept", b"Gone", b"RMQ_SYS_TRANS_HALF_TOPIC", b"rmq_sys_wheel_timer", b"%LMQ%x", b"%RETRY%G", b"%RETRY%H"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    messages = [make_message(name, queue_offset=i) for i in range(4) for name in NAMES]
    root = build(tmp_path / "store", messages)
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text(TOPICS)
    return root


def remove_queue(store: Path, topic: str) -> None:
    for file in (store / "consumequeue" / topic / "0").iterdir():
        file.unlink()
    (store / "consumequeue" / topic / "0").rmdir()  # 4.x leaves the topic's folder


def test_which_topics_are_deleted(store: Path) -> None:
    known = KnownTopics.read(str(store))
    assert [name for name in NAMES if known.is_deleted(name)] == []  # their queues are there
    for name in NAMES:
        remove_queue(store, name.decode())
    assert [name for name in NAMES if known.is_deleted(name)] == [b"Gone", b"%RETRY%H"]
    assert not KnownTopics.read(str(store), every=True).is_deleted(b"Gone")


@pytest.mark.parametrize("text", [None, "", "{", "{}", '{"topicConfigTable":{}}'])
def test_without_a_valid_file_no_topic_is_deleted(store: Path, text: str | None) -> None:
    remove_queue(store, "Gone")
    (store / "config" / "topics.json").unlink()
    if text is not None:
        (store / "config" / "topics.json").write_text(text)
    assert not KnownTopics.read(str(store)).is_deleted(b"Gone")


@pytest.mark.parametrize("text", [None, "", "{"])
def test_an_older_backup_tells_of_no_deleted_topic(store: Path, text: str | None) -> None:
    """Topics that were made since are not in it."""
    remove_queue(store, "Gone")
    path = store / "config" / "topics.json"
    path.rename(f"{path}.bak")
    if text is not None:
        path.write_text(text)
    assert not KnownTopics.read(str(store)).is_deleted(b"Gone")


def test_a_file_that_is_refused_is_not_replaced_by_its_backup(store: Path) -> None:
    remove_queue(store, "Gone")
    (store / "config" / "topics.json.bak").write_text(TOPICS)
    for code in (errno.EMFILE, errno.EACCES):
        env = FaultEnv(str(store), Fault(1, errno=code, kinds=frozenset({"open_read"})))
        with pytest.raises(StorageError, match=r"topics\.json"):
            KnownTopics.read(str(store), env=env)


def test_an_old_file_beside_a_configuration_in_rocksdb_does_not_count(store: Path) -> None:
    remove_queue(store, "Gone")
    (store / "config" / "topics").mkdir()
    (store / "config" / "topics" / "CURRENT").write_text("MANIFEST-000005\n")
    assert not KnownTopics.read(str(store)).is_deleted(b"Gone")


def test_a_deleted_topic_is_no_finding_and_comes_back_only_if_asked(store: Path, tmp_path: Path) -> None:
    before = contents(store)
    remove_queue(store, "Gone")
    report = verify(store, CONFIG)
    assert [str(finding) for finding in report.findings] == []
    assert [info.path for info in report.infos if info.kind == "deleted-queue"] == [f"{store}/consumequeue/Gone/0"]
    reports = {}
    for asked in (False, True):
        one = rebuild(store, tmp_path / f"local-{asked}", CONFIG, deleted_topics=asked, sync=False)
        other = rebuild_on(
            Serial(2), store, tmp_path / f"tasks-{asked}", CONFIG, deleted_topics=asked, sync=False, part_size_bytes=700
        )
        assert facts(one) == facts(other)
        assert contents(tmp_path / f"local-{asked}") == contents(tmp_path / f"tasks-{asked}")
        assert one.losses == []
        reports[asked] = one
    assert (reports[False].deleted_topics, reports[True].deleted_topics) == ({"Gone": 4}, {})
    assert not (tmp_path / "local-False" / "consumequeue" / "Gone").exists()
    derived = {name: data for name, data in before.items() if name.startswith(("consumequeue", "index"))}
    assert contents(tmp_path / "local-True") == derived


def test_a_lost_queue_of_a_topic_that_is_known_is_a_finding(store: Path) -> None:
    remove_queue(store, "Kept")
    assert [finding.check for finding in verify(store, CONFIG).findings] == ["consume-queue-missing"]
