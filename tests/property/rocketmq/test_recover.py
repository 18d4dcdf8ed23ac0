"""Random harm to small stores: every message whose bytes are untouched is in what recover makes of
them, at its place, and nothing else but placeholders; the new store is clean, and recovering it
again changes no byte."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.layout.rocketmq import BLANK_MAGIC, SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK
from logdex.rocketmq.message.stored_message import StoredMessage, decode_message
from logdex.rocketmq.read.results import GetMessageStatus
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.recover import RecoverReport, recover
from logdex.rocketmq.recover.placeholder import LOST_TOPIC
from logdex.rocketmq.verify import verify
from logdex.testing.store_builder import make_message
from tests.crash.trees import tree
from tests.examples import cases
from tests.unit.rocketmq.small_stores import CONFIG, FILE_SIZE, START_MS, build, opened

SEEDS = cases(range(400), 40)
Messages = dict[int, bytes]
"""The bytes of messages by their physical offsets."""


def random_store(root: Path, rng: random.Random) -> Messages:
    """Some queues, messages of all lengths from the shortest on, prepared ones among them."""
    queues: dict[tuple[bytes, int], int] = {}
    made = []
    for number in range(rng.randint(1, 60)):
        topic, queue_id = rng.choice([b"TopicA", b"T"]), rng.randrange(2)
        offset = queues.get((topic, queue_id), 0)
        sys_flag = rng.choice([0] * 8 + [SYS_FLAG_PREPARED])
        queues[topic, queue_id] = offset + (not sys_flag)
        message = make_message(
            topic,
            queue_id=queue_id,
            queue_offset=0 if sys_flag else offset,
            body=rng.randbytes(rng.choice([0, 0, 10, 100, 300])),
            store_timestamp_ms=START_MS + number * 1000,
            sys_flag=sys_flag,
            properties=[(b"KEYS", b"k%d" % number)] if rng.random() < 0.7 else [],
        )
        made.append(message)
    build(root, made, start_offset=rng.choice([0, 3 * FILE_SIZE]))
    return {message.physical_offset: raw for message, raw in walk(root)}


def walk(root: Path) -> list[tuple[StoredMessage, bytes]]:
    """Each message of a clean log with its bytes, file by file, with plain code."""
    found = []
    for path in sorted((root / "commitlog").iterdir()):
        data, at = path.read_bytes(), 0
        assert len(data) == FILE_SIZE
        while any(data[at : at + 8]) and data[at + 4 : at + 8] != BLANK_MAGIC.to_bytes(4, "big"):
            message, size = decode_message(data, at)
            assert message.physical_offset == int(path.name) + at
            found.append((message, data[at : at + size]))
            at += size
    return found


def flip(data: bytearray, at: int, rng: random.Random) -> None:
    data[at] ^= 1 << rng.randrange(8)


def zeros(data: bytearray, at: int, rng: random.Random) -> None:
    end = min(at + rng.randint(1, 700), len(data))
    data[at:end] = bytes(end - at)


def garbage(data: bytearray, at: int, rng: random.Random) -> None:
    end = min(at + rng.randint(1, 700), len(data))
    data[at:end] = rng.randbytes(end - at)


def cut(data: bytearray, at: int, rng: random.Random) -> None:
    del data[at:]


def shift(data: bytearray, at: int, rng: random.Random) -> None:
    """The bytes of a place lie a little farther on."""
    data[at:] = (rng.randbytes(rng.randint(1, 9)) + data[at:])[: len(data) - at]


HARMS: list[Callable[[bytearray, int, random.Random], None]] = [flip, flip, zeros, garbage, cut, shift]


def harm(root: Path, rng: random.Random) -> None:
    files = sorted((root / "commitlog").iterdir())
    for _ in range(rng.randint(1, 4)):
        path = rng.choice(files)
        if not path.exists():
            continue
        if len(files) > 2 and rng.random() < 0.1:
            path.unlink()
            continue
        data = bytearray(path.read_bytes())
        if data:
            rng.choice(HARMS)(data, rng.randrange(len(data)), rng)
        path.write_bytes(data)
    if not any(path.exists() for path in files):
        files[0].write_bytes(b"")


def bytes_at(root: Path, offset: int, size: int) -> bytes:
    """The bytes of a log at a physical offset, as many as there are."""
    start = offset // FILE_SIZE * FILE_SIZE
    path = root / "commitlog" / f"{start:020d}"
    return path.read_bytes()[offset - start :][:size] if path.exists() else b""


def is_placeholder(message: StoredMessage) -> bool:
    is_lost = len(message.topic) > 0 and LOST_TOPIC.startswith(message.topic)
    return is_lost and message.sys_flag == SYS_FLAG_ROLLBACK and not any(message.body) and not message.properties_raw


def check_saved(root: Path, out: Path, original: Messages) -> bool:
    """Checks which messages are in the output. Returns whether all of them have their old bytes."""
    saved: Messages = {}
    last_ms = 0
    for message, raw in walk(out):
        if is_placeholder(message):
            assert last_ms <= message.store_timestamp_ms or last_ms == 0
            continue
        last_ms = message.store_timestamp_ms
        assert bytes_at(root, message.physical_offset, len(raw)) == raw
        saved[message.physical_offset] = raw
    for offset, raw in original.items():
        is_queued = decode_message(raw)[0].is_queued
        if is_queued and bytes_at(root, offset, len(raw)) == raw:
            assert saved.get(offset) == raw
    return all(original.get(offset) == raw for offset, raw in saved.items())


def check_reads(out: Path) -> None:
    """Every message is found through its queue and by its keys."""
    with opened(out) as store:
        for topic in (b"TopicA", b"T"):
            of_topic = [message.physical_offset for message, _ in walk(out) if message.topic == topic]
            if of_topic:
                assert [message.physical_offset for message in store.scan(topic=topic)] == of_topic
        for message, _ in walk(out):
            if message.is_queued:
                found = store.get_message(
                    message.topic, queue_id=message.queue_id, offset=message.queue_offset, max_count=1
                )
                if found.status is not GetMessageStatus.OFFSET_TOO_SMALL:  # where a gap misleads a broker's search too
                    assert [each.physical_offset for each in found.messages] == [message.physical_offset]
            for key in message.keys:
                hits = store.query_message(message.topic, key).messages
                assert message.physical_offset in [each.physical_offset for each in hits]


def recovered(root: Path, out: Path) -> RecoverReport:
    return recover(root, out, CONFIG, sync=False)


@pytest.mark.parametrize("seed", SEEDS)
def test_harmed_stores(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    root, out = tmp_path / "store", tmp_path / "out"
    original = random_store(root, rng)
    harm(root, rng)
    before = tree(root)
    report = recovered(root, out)
    assert tree(root) == before
    is_as_before = check_saved(root, out, original)
    assert report.messages + report.placeholders == len(walk(out))
    first = min(int(path.name) for path in (out / "commitlog").iterdir())  # older files may have expired
    saved = {message.physical_offset for message, _ in walk(out) if not is_placeholder(message)}
    if any(first <= offset < report.end_offset and offset not in saved for offset in original):
        assert report.lossy
    again = recovered(out, tmp_path / "again")
    assert tree(tmp_path / "again") == tree(out)
    assert again.skipped == []
    rebuild(out, tmp_path / "rebuilt", CONFIG, sync=False)
    for name in ("consumequeue", "index"):
        assert tree(tmp_path / "rebuilt" / name) == tree(out / name)
    if is_as_before:  # a queue offset or a topic that was changed is a damage that no byte of the message shows
        assert not again.lossy
        assert [str(each) for each in verify(str(out), CONFIG).findings] == []
        check_reads(out)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_unharmed_log_is_copied_byte_for_byte(seed: int, tmp_path: Path) -> None:
    random_store(tmp_path / "store", random.Random(seed))
    report = recovered(tmp_path / "store", tmp_path / "out")
    assert not report.lossy
    for name in ("commitlog", "consumequeue", "index"):
        assert tree(tmp_path / "out" / name) == tree(tmp_path / "store" / name)


@pytest.mark.parametrize("seed", range(4))
def test_without_consume_queues_nothing_appears(seed: int, tmp_path: Path) -> None:
    """Without proof by a ConsumeQueue, messages between two lost heads may be lost too."""
    rng = random.Random(seed)
    root, out = tmp_path / "store", tmp_path / "out"
    random_store(root, rng)
    (root / "consumequeue").rename(tmp_path / "away")
    harm(root, rng)
    recovered(root, out)
    for message, raw in walk(out):
        if not is_placeholder(message):
            assert bytes_at(root, message.physical_offset, len(raw)) == raw
