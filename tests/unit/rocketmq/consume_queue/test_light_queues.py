"""Light queues: which further queues a message's properties name, and their rebuild and check."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.rocketmq.consume_queue.light_queues import named_queues
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.rebuild import rebuild, rebuild_on
from logdex.rocketmq.verify import verify
from logdex.testing.store_builder import make_message
from tests.directories import contents
from tests.unit.rocketmq.rebuild.test_job import Serial, facts
from tests.unit.rocketmq.small_stores import CONFIG, START_MS, build, opened


def light(number: int, names: bytes, offsets: bytes, *, topic: bytes = b"T", queue_id: int = 3) -> StoredMessage:
    properties = [(b"INNER_MULTI_QUEUE_OFFSET", offsets), (b"TAGS", b"A"), (b"INNER_MULTI_DISPATCH", names)]
    return make_message(
        topic,
        queue_id=queue_id,
        queue_offset=number,
        store_timestamp_ms=START_MS + number,
        body=b"%d" % number,
        properties=properties,
    )


@pytest.mark.parametrize(
    ("topic", "names", "offsets", "expected"),
    [
        (b"T", b"%LMQ%a", b"5", [(b"%LMQ%a", 5)]),
        (b"T", b"%LMQ%a,%LMQ%b", b"5,+07", [(b"%LMQ%a", 5), (b"%LMQ%b", 7)]),
        (b"T", b"%LMQ%a,,", b"5,", [(b"%LMQ%a", 5)]),  # Java drops empty parts at the end
        (b"T", b"%LMQ%a,%LMQ%b", b"5", []),
        (b"T", b"%LMQ%a", b"x", []),
        (b"T", b"%LMQ%a,%LMQ%b", b"1,9223372036854775808", [(b"%LMQ%a", 1)]),
        (b"T", b"%LMQ%a/b,other", b"1,2", [(b"other", 2)]),
        (b"T", b"%LMQ%a", b"", []),
        (b"%RETRY%G", b"%LMQ%a", b"5", []),
        (b"rmq_sys_wheel_timer", b"%LMQ%a", b"5", []),
        (b"SCHEDULE_TOPIC_XXXX", b"%LMQ%a", b"5", []),
    ],
)
def test_named_queues(topic: bytes, names: bytes, offsets: bytes, expected: list[tuple[bytes, int]]) -> None:
    properties = {b"INNER_MULTI_DISPATCH": names, b"INNER_MULTI_QUEUE_OFFSET": offsets}
    assert named_queues(topic, properties) == expected


def messages() -> list[StoredMessage]:
    """Messages of T, every second of them in %LMQ%a too, every fourth in %LMQ%b and the queue
    X/3."""
    found = []
    for number in range(40):
        if number % 4 == 0:
            found.append(light(number, b"%LMQ%a,%LMQ%b,X", b"%d,%d,%d" % (number // 2, number // 4, number // 4)))
        elif number % 2 == 0:
            found.append(light(number, b"%LMQ%a", b"%d" % (number // 2)))
        else:
            found.append(make_message(b"T", queue_id=3, queue_offset=number, store_timestamp_ms=START_MS + number))
    return found


def test_rebuilt_by_both_engines_checked_and_read(tmp_path: Path) -> None:
    store = build(tmp_path / "store", messages())
    folders = sorted(str(path.relative_to(store)) for path in (store / "consumequeue").glob("*/*"))
    assert folders == [f"consumequeue/{name}" for name in ("%LMQ%a/0", "%LMQ%b/0", "T/3", "X/3")]
    report = verify(store, CONFIG)
    assert [str(finding) for finding in report.findings] == []
    assert [info.kind for info in report.infos] == ["no-checkpoint"]
    one = rebuild(store, tmp_path / "local", CONFIG, sync=False)
    for size in (500, 1500, 1 << 20):
        other = rebuild_on(Serial(size), store, tmp_path / f"{size}", CONFIG, sync=False, part_size_bytes=size)
        assert facts(other) == facts(one)
        assert contents(tmp_path / f"{size}") == contents(tmp_path / "local")
    assert (one.queues, one.queue_entries) == (4, 40 + 20 + 10 + 10)
    with opened(store) as snapshot:
        got = snapshot.get_message("%LMQ%b", queue_id=0, offset=2, max_count=2)
        assert [message.queue_offset for message in got.messages] == [8, 12]


@pytest.mark.parametrize("folder", ["%LMQ%a/0", "X/3"])
def test_a_lost_or_changed_light_queue_is_found(tmp_path: Path, folder: str) -> None:
    store = build(tmp_path / "store", messages())
    file = store / "consumequeue" / folder / f"{0:020d}"
    data = bytearray(file.read_bytes())
    data[20 * 3 + 11] ^= 4  # the size in the entry of queue offset 3
    file.write_bytes(data)
    assert [finding.check for finding in verify(store, CONFIG).findings] == ["consume-queue-size"]
    (store / "consumequeue" / folder).rename(tmp_path / "away")
    assert [finding.check for finding in verify(store, CONFIG).findings] == ["consume-queue-missing"]
