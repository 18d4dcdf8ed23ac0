"""`get_message` of an open store answers with the statuses and offsets of the real engine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from logdex.rocketmq.read.results import GetMessageResult
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.interop.rocketmq.engines import VERSIONS
from tests.interop.rocketmq.programs import Program
from tests.interop.rocketmq.test_ping_pong import SIZES as SMALL

pytestmark = [pytest.mark.needs_java, pytest.mark.slow, pytest.mark.timeout(600)]

SIZES = {**SMALL, "mapped_file_size_consume_queue": 20_000}
GEOMETRY = ("--commitlog", 16384, "--cq", 1000, "--slots", 100, "--max-index", 1000)
"""One file per queue: the engine also ends a read where a ConsumeQueue file ends, and Logdex goes
on."""
OFFSETS = (-1, 0, 1, 7, 39, 40, 99, 100, 101, 5000)
ASKED = [
    *(("orders", queue_id, offset, 8, "*") for queue_id in (0, 1, 9) for offset in OFFSETS),
    *(("nothing", 0, offset, 8, "*") for offset in (0, 5)),
    *(("orders", 0, offset, 4, tag) for tag in ("even", "none") for offset in (0, 95, 99, 100)),
]


def as_line(found: GetMessageResult) -> str:
    offsets = f"{found.next_begin_offset} {found.min_offset} {found.max_offset}"
    return f"{found.status.value} {offsets} {len(found.messages)}"


@pytest.mark.parametrize("version", VERSIONS)
def test_statuses(version: str, peers_dir: Path, tmp_path: Path) -> None:
    program = Program(peers_dir, version, "GetStatuses", tmp_path)
    root, seen = tmp_path / "store", set()
    with MessageStore.open(root, rocketmq_version=version, **SIZES) as store:
        for number in range(200):
            tag = "even" if number % 4 == 0 else "odd"
            store.put_message(Message("orders", b"x" * 200, tags=tag, queue_id=number % 2))
    for turn in range(2):
        shutil.copytree(root, tmp_path / f"real-{turn}")
        question = ";".join(" ".join(map(str, each)) for each in ASKED)
        lines = program.run("--dir", tmp_path / f"real-{turn}", "--asked", question, *GEOMETRY)
        with MessageStore.open(root, rocketmq_version=version, **SIZES) as store:
            for (topic, queue_id, offset, count, tag), line in zip(ASKED, lines, strict=True):
                found = store.get_message(topic, queue_id, offset, count, tags=tag)
                if topic == "nothing" or queue_id == 9:  # the engine makes the queue when it is asked for
                    line = line.replace("NO_MESSAGE_IN_QUEUE", "NO_MATCHED_LOGIC_QUEUE")
                assert as_line(found) == line, (turn, topic, queue_id, offset, tag)
                seen.add(found.status.value)
        (root / "commitlog" / f"{0:020}").unlink(missing_ok=True)  # as retention does, for the second turn
    assert seen == {
        *("FOUND", "NO_MATCHED_LOGIC_QUEUE", "NO_MATCHED_MESSAGE", "OFFSET_TOO_SMALL"),
        *("OFFSET_OVERFLOW_ONE", "OFFSET_OVERFLOW_BADLY"),
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_statuses_while_files_are_removed(version: str, peers_dir: Path, tmp_path: Path) -> None:
    """Files of the CommitLog are gone, and the queues still say that their messages are there: so
    it is for the engine between two steps of its retention, and for a snapshot opened before."""
    program = Program(peers_dir, version, "GetStatuses", tmp_path)
    root = tmp_path / "store"
    with MessageStore.open(root, rocketmq_version=version, **SIZES) as store:
        store.put_message(Message("first", b""))  # the engine looks for offset 0 in whatever file is the first
        for number in range(200):
            tag = "even" if number % 4 == 0 else "odd"
            topic = "early" if number < 6 else "orders"
            store.put_message(Message(topic, b"x" * 200, tags=tag, queue_id=number % 2))
    asked = [
        *(("early", queue_id, offset, count, "*") for queue_id in (0, 1) for offset in (0, 1, 2) for count in (1, 8)),
        *(
            ("orders", queue_id, offset, 8, tag)
            for queue_id in (0, 1)
            for offset in (0, 5, 60, 96)
            for tag in ["*", "odd"]
        ),
        *(("early", 0, offset, 8, tag) for offset in (0, 2) for tag in ("even", "none")),
    ]
    shutil.copytree(root, tmp_path / "real")
    question = ";".join(" ".join(map(str, each)) for each in asked)
    lines = program.run("--dir", tmp_path / "real", "--expire", "--asked", question, *GEOMETRY)
    with StoreSnapshot(root, rocketmq_version=version, **SIZES) as snapshot:
        for topic, queue_id in ("early", 0), ("early", 1), ("orders", 0), ("orders", 1):
            assert snapshot.get_message(topic, queue_id, 999).min_offset == 0  # reads no file of the log
        left = {path.name for path in (tmp_path / "real" / "commitlog").iterdir()}
        removed = [path for path in (root / "commitlog").iterdir() if path.name not in left]
        for path in removed:
            path.unlink()
        assert removed
        answers = [as_line(snapshot.get_message(*each[:4], tags=each[4])) for each in asked]
    assert [*zip(asked, answers, strict=True)] == [*zip(asked, lines, strict=True)]
    assert {line.split()[0] for line in lines} >= {"MESSAGE_WAS_REMOVING", "FOUND"}
