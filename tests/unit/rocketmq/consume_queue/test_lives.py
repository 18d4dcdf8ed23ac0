"""A topic that was deleted and created again: the newest life of a queue wins, in whatever way its
entries come."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from logdex.io.env import Env
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.derive import PRE_BLANK_ENTRY
from logdex.rocketmq.consume_queue.lives import begins_anew
from logdex.rocketmq.consume_queue.writer import ConsumeQueueSet, QueueReport
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.read.scanned_queue import ScannedQueue
from logdex.rocketmq.rebuild import rebuild, rebuild_on
from logdex.rocketmq.recover import recover
from logdex.rocketmq.verify import verify
from logdex.testing.store_builder import make_message
from tests.directories import contents
from tests.unit.rocketmq.rebuild.test_job import Serial, facts
from tests.unit.rocketmq.small_stores import CONFIG, START_MS, build

FILE_SIZE = 100


@pytest.mark.parametrize(
    ("next_offset", "first", "second", "is_new"),
    [
        (5, 0, 1, True),
        (5, 0, None, True),
        (5, 0, 2, True),  # a message of the new life is missing
        (5, 0, 0, True),
        (1, 0, 1, True),
        (5, 0, 5, False),  # one changed queue offset
        (5, 0, 6, False),
        (5, 0, -3, False),
        (5, 1, 2, False),
        (-1, 0, 1, False),
        (0, 0, 1, False),
    ],
)
def test_what_begins_anew(next_offset: int, first: int, second: int | None, is_new: bool) -> None:
    assert begins_anew(next_offset, first, second) == is_new


@pytest.mark.parametrize("lives", [[*range(3), *range(5)], [0, *range(5)]], ids=["created again", "damaged"])
def test_recover_tells_of_messages_in_no_queue(lives: list[int], tmp_path: Path) -> None:
    root = build(tmp_path / "store", [make_message(queue_offset=offset) for offset in lives])
    report = recover(root, tmp_path / "out", CONFIG, sync=False)
    assert (report.messages, report.queue_entries, report.lossy) == (len(lives), 5, False)
    are = {1: "1 message is", 3: "3 messages are"}[len(lives) - 5]
    told = f"{are} in no queue: of earlier lives of topics that were created again, or their topic or queue has changed"
    assert told in report.notes
    assert told in [each.message for each in verify(str(root), CONFIG).infos]


def test_messages_behind_a_queue_offset_that_jumped_ahead(tmp_path: Path) -> None:
    """The places of the messages that are left out are empty, but for the last one."""
    root = build(tmp_path / "store", [make_message(queue_offset=offset) for offset in [5, *range(1, 8)]])
    [told] = recover(root, tmp_path / "out", CONFIG, sync=False).losses
    why = "a message before has {} queue offset or a higher one"
    assert told == f"TopicA/0: 5 entries left out, because {why.format('their')}, which may be damaged"
    findings = verify(str(root), CONFIG).findings
    assert [each.found for each in findings] == ["1", "2", "3", "4", "5"]
    text = f"TopicA/0 has no entry of this message, so that no consumer gets it: {why.format('this')}"
    assert {each.message for each in findings} == {text}


def entry(number: int) -> bytes:
    return bytes([number]) * 20


def write(root: Path, *batches: list[int]) -> tuple[bytes, QueueReport]:
    """The bytes of the queue, and its report; entry n is numbered in the order of putting, from
    1."""
    queues = ConsumeQueueSet(str(root), FILE_SIZE, Env(), sync=False)
    number = 1
    for offsets in batches:
        data = b"".join(entry(number + i) for i in range(len(offsets)))
        number += len(offsets)
        queues.put(b"T", 0, np.array(offsets, np.int64), np.frombuffer(data, np.uint8))
    files = queues.close()
    found = sorted((root / "T" / "0").glob("*"))
    assert [path.name for path in found] == [f"{i * FILE_SIZE:020d}" for i in range(len(found))]
    assert files == len(found)
    return b"".join(path.read_bytes() for path in found), queues.writers["T/0"].report


@pytest.mark.parametrize(
    "batches", [([0, 1, 2, 3, 4, 5, 6, 0, 1],), ([0, 1, 2, 3, 4, 5, 6], [0], [1]), ([0, 1, 2, 3], [4, 5, 6, 0], [1])]
)
def test_the_newest_life_replaces_all_files(tmp_path: Path, batches: tuple[list[int], ...]) -> None:
    data, report = write(tmp_path, *batches)
    assert data == (entry(8) + entry(9)).ljust(FILE_SIZE, b"\0")
    assert report == QueueReport(entries=2, first_offset=0, next_offset=2, earlier=7)


def test_a_life_of_one_message_and_many_lives(tmp_path: Path) -> None:
    data, report = write(tmp_path / "one", [0, 1, 2], [0])
    assert data == entry(4).ljust(FILE_SIZE, b"\0")
    assert (report.entries, report.earlier, report.repeated) == (1, 3, 0)
    data, report = write(tmp_path / "many", [7, 8, 0, 1, 2, 0, 0, 1, 3])
    assert data == (entry(7) + entry(8) + PRE_BLANK_ENTRY + entry(9)).ljust(FILE_SIZE, b"\0")
    assert (report.entries, report.gaps, report.earlier, report.next_offset) == (3, 1, 6, 4)


def test_one_changed_queue_offset_begins_nothing(tmp_path: Path) -> None:
    data, report = write(tmp_path, [0, 1, 2, 0], [4, 5])
    assert data[:120] == entry(1) + entry(2) + entry(3) + PRE_BLANK_ENTRY + entry(5) + entry(6)
    assert (report.entries, report.repeated, report.earlier) == (5, 1, 0)


@pytest.mark.parametrize("seed", range(40))
def test_a_scanned_queue_has_what_the_writer_writes(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    offsets: list[int] = []
    for _ in range(choose.randrange(1, 5)):
        start, count = choose.choice((0, 0, 0, 3)), choose.randrange(1, 9)
        offsets += [start + i if choose.random() > 0.1 else choose.randrange(9) for i in range(count)]
    store = build(tmp_path / "store", [make_message(b"T", queue_offset=offset) for offset in offsets])
    queue = ScannedQueue(CommitLog.of_store(str(store)), b"T", 0, config=CONFIG)
    scanned = queue.entries(queue.start_offset, 99)
    written = np.frombuffer(
        b"".join(path.read_bytes() for path in sorted((store / "consumequeue/T/0").iterdir())), ">u1"
    )
    rows = written.reshape(-1, 20)[queue.start_offset : queue.max_offset]
    stored = scanned.astype(scanned.dtype.newbyteorder(">"))
    assert rows.tobytes() == stored.tobytes()
    assert not written.reshape(-1, 20)[queue.max_offset :].any()


def message(number: int, topic: bytes, queue_id: int, queue_offset: int) -> StoredMessage:
    return make_message(
        topic, queue_id=queue_id, queue_offset=queue_offset, store_timestamp_ms=START_MS + number, body=b"%d" % number
    )


def recreated(*, old: int, new: int, queues: int = 2) -> list[StoredMessage]:
    """Messages of T in two lives, the second without the last queue, among messages of another
    topic."""
    lives = [(queue, i) for i in range(old) for queue in range(queues)]
    lives += [(queue, i) for i in range(new) for queue in range(queues - 1)]
    pairs = [(message(2 * n, b"T", *at), message(2 * n + 1, b"U", 0, n)) for n, at in enumerate(lives)]
    return [one for pair in pairs for one in pair]


@pytest.mark.parametrize(("old", "new"), [(30, 4), (4, 30), (1, 1), (12, 1)])
def test_both_engines_and_verify_know_the_newest_life(tmp_path: Path, old: int, new: int) -> None:
    store = build(tmp_path / "store", recreated(old=old, new=new))
    first = CONSUME_QUEUE_ENTRY.struct.unpack_from((store / "consumequeue/T/0" / f"{0:020d}").read_bytes())
    with CommitLog.of_store(str(store)) as log:
        born = log.read_message(first[0])
        assert (born.queue_offset, born.body) == (0, b"%d" % (4 * old))
    (store / "consumequeue/T/1").rename(tmp_path / "dead")  # the broker has no such queue any more
    report = verify(store, CONFIG)
    assert [str(finding) for finding in report.findings] == []
    assert {info.kind for info in report.infos if info.path.endswith(("T/0", "T/1"))} == {
        "earlier-life",
        "deleted-queue",
    }
    one = rebuild(str(store), str(tmp_path / "local"), CONFIG, sync=False)
    other = rebuild_on(Serial(1), str(store), str(tmp_path / "tasks"), CONFIG, sync=False, part_size_bytes=700)
    assert facts(one) == facts(other)
    assert contents(tmp_path / "local") == contents(tmp_path / "tasks")
    assert (one.earlier_life_entries, one.losses) == (old, [])


def test_dead_entries_on_disk_are_found_and_mended(tmp_path: Path) -> None:
    """The engine's own re-dispatch, and rebuilds by older versions, leave the dead life in the
    queue."""
    messages = recreated(old=6, new=3, queues=2)
    store = build(tmp_path / "store", messages)
    alive = contents(store)
    dead = build(tmp_path / "dead", messages[:24])
    queue = Path("consumequeue/T/0") / f"{0:020d}"
    (store / queue).write_bytes((dead / queue).read_bytes())
    findings = verify(store, CONFIG).findings
    assert findings
    assert all("rebuild" in finding.mend or "restore" in finding.mend for finding in findings)
    rebuild(str(store), str(store), CONFIG, in_place=True, sync=False)
    assert verify(store, CONFIG).findings == []
    assert {name: data for name, data in contents(store).items() if name in alive} == alive
