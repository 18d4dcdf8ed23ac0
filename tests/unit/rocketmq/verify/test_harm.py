"""For each check: one byte or field is harmed, and exactly that finding comes, with its place."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.layout.rocketmq import BLANK_MAGIC
from logdex.rocketmq.verify import CHECKS
from tests.examples import cases
from tests.golden import rocketmq as golden
from tests.unit.rocketmq.verify.store_harm import Store

NAME = "tiny-5.5.0"
Expected = tuple[str, str, int]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(golden.unpack(NAME, tmp_path), NAME)


def filler(store: Store) -> tuple[str, int]:
    path, at, message = [row for row in store.messages if row[0].endswith("0" * 20)][-1]
    at += message.size_bytes
    assert (store.root / path).read_bytes()[at + 4 : at + 8] == BLANK_MAGIC.to_bytes(4, "big")
    return path, at


def tail(store: Store) -> tuple[str, int]:
    path, at, message = store.messages[-1]
    return path, at + message.size_bytes


def message_field(offset: int, check: str, at_found: int | None = None, mask: int = 1) -> Callable[[Store], Expected]:
    def harm(store: Store) -> Expected:
        path, at, _ = store.plain_message()
        store.change(path, at + offset, mask)
        return check, path, at + (offset if at_found is None else at_found)

    return harm


def body(store: Store) -> Expected:
    path, at, message = store.plain_message()
    place = at + (store.root / path).read_bytes()[at:].index(message.body)
    store.change(path, place + len(message.body) // 2)
    return "message-crc", path, place


def topic_length(store: Store) -> Expected:
    path, at, message = store.plain_message()
    place = at + (store.root / path).read_bytes()[at:].index(message.topic + bytes([0])) - 1
    store.change(path, place, 64)
    return "message-lengths", path, at


def topic(store: Store) -> Expected:
    path, at, message = store.plain_message()
    place = at + (store.root / path).read_bytes()[at:].index(message.topic + bytes([0]))
    store.change(path, place)
    return "message-queue", path, at


def key(store: Store) -> Expected:
    path, at, message = store.plain_message()
    place = at + (store.root / path).read_bytes()[at:].index(b"KEYS\x01" + message.keys[0]) + 5
    store.change(path, place, 16)
    return "message-keys", path, at


def store_timestamp(store: Store) -> Expected:
    path, at, _ = store.plain_message()
    store.change(path, at + 56 + 4, 16)
    return "message-store-timestamp", path, at + 56


def delay(store: Store) -> Expected:
    for path, at, message in store.messages:
        if message.topic == b"SCHEDULE_TOPIC_XXXX" and b"DELAY" in message.properties:
            place = at + (store.root / path).read_bytes()[at:].index(b"DELAY\x01") + 6
            store.change(path, place, 64)
            return "message-delay", path, at
    raise AssertionError("no delayed message")


def filler_size(store: Store) -> Expected:
    path, at = filler(store)
    store.change(path, at + 3)
    return "filler", path, at


def filler_magic(store: Store) -> Expected:
    path, at = filler(store)
    store.change(path, at + 5)
    return "filler", path, at + 4


def stray_byte(store: Store) -> Expected:
    path, at = tail(store)
    store.change(path, at + 100)
    return "commit-log-stray-bytes", path, at + 100


def hole(store: Store) -> Expected:
    path, at, message = store.plain_message()
    store.write(path, at, bytes(message.size_bytes))
    return "commit-log-hole", path, at


def torn(store: Store) -> Expected:
    path, at, message = store.messages[-1]
    store.write(path, at + message.size_bytes - 30, bytes(30))
    return "torn-tail", path, at


def last_body(store: Store) -> Expected:
    path, at, message = store.messages[-1]
    place = at + (store.root / path).read_bytes()[at:].index(message.body)
    store.change(path, place)
    return "message-crc", path, place


def log_cut(store: Store) -> Expected:
    path = store.messages[0][0]
    store.cut(path, 32_000)
    return "commit-log-file-size", path, 32_000


def log_gap(store: Store) -> Expected:
    path = "commitlog/00000000000000032768"
    (store.root / path).unlink()
    return "commit-log-gap", path, 0


def queue_field(offset: int, check: str) -> Callable[[Store], Expected]:
    def harm(store: Store) -> Expected:
        path, at = store.queue_entry(store.plain_message()[2])
        width = {0: 7, 8: 3, 12: 7}[offset]
        store.change(path, at + offset + width)
        return check, path, at + offset

    return harm


def queue_entry_zero(store: Store) -> Expected:
    path, at = store.queue_entry(store.plain_message()[2])
    store.write(path, at, bytes(20))
    return "consume-queue-entry", path, at


def queue_places(store: Store) -> tuple[str, int]:
    """The first free place of a queue that has one in its last file."""
    ends = {}
    for _, _, message in store.messages:
        if message.is_queued:
            path, at = store.queue_entry(message)
            ends[path] = at + 20
    return next((path, at) for path, at in ends.items() if at + 40 <= store.config.consume_queue_file_size_bytes)


def queue_extra(store: Store) -> Expected:
    path, at = queue_places(store)
    store.write(path, at, struct.pack(">qiq", store.messages[3][2].physical_offset, 200, 0))
    return "consume-queue-extra-entry", path, at


def queue_stray(store: Store) -> Expected:
    path, at = queue_places(store)
    store.change(path, at + 2)
    return "consume-queue-stray-bytes", path, at


def queue_cut(store: Store) -> Expected:
    path, at = store.queue_entry(store.plain_message()[2])
    store.cut(path, at + 10)
    return "consume-queue-file-size", path, at + 10


def queue_gap(store: Store) -> Expected:
    path, _ = store.queue_entry(next(row[2] for row in store.messages if row[2].queue_offset == 25))
    first = path.replace("400", "000")
    (store.root / first).unlink()
    return "consume-queue-gap", first, 0


def queue_missing(store: Store) -> Expected:
    folder = store.root / store.queue_entry(store.plain_message()[2])[0]
    for path in folder.parent.iterdir():
        path.unlink()
    folder.parent.rmdir()
    return "consume-queue-missing", str(folder.parent.relative_to(store.root)), 0


def index_field(offset: int, check: str, mask: int = 1) -> Callable[[Store], Expected]:
    def harm(store: Store) -> Expected:
        at = store.index_entry(123)
        width = {0: 3, 4: 7, 12: 3, 16: 3}[offset]
        store.change(store.index(), at + offset + width, mask)
        return check, store.index(), at + offset

    return harm


def header_field(offset: int, width: int) -> Callable[[Store], Expected]:
    def harm(store: Store) -> Expected:
        store.change(store.index(1), offset + width - 1)
        return "index-header", store.index(1), offset

    return harm


def index_slot(value: int | None) -> Callable[[Store], Expected]:
    def harm(store: Store) -> Expected:
        path, at = store.index(), 40 + 4 * 17
        if value is None:
            store.change(path, at + 3)
        else:
            store.write(path, at, struct.pack(">i", value))
        return "index-slot", path, at

    return harm


def index_cycle(store: Store) -> Expected:
    path, at = store.index(), store.index_entry(77) + 16
    store.write(path, at, struct.pack(">i", 77))
    return "index-link", path, at


def index_cut(store: Store) -> Expected:
    store.cut(store.index(1), 5_000)
    return "index-file-size", store.index(1), 5_000


def index_stray(store: Store) -> Expected:
    path = store.index(-1)
    count = int.from_bytes((store.root / path).read_bytes()[36:40], "big")
    store.change(path, store.index_entry(count) + 7)
    return "index-stray-bytes", path, store.index_entry(count) + 7


def index_missing(store: Store) -> Expected:
    (store.root / store.index(1)).unlink()
    return "index-missing-range", store.index(1), store.index_entry(1)


def index_extra(store: Store) -> Expected:
    """An entry that no message has, behind the last one, with the right slot, link and count."""
    path = store.index(-1)
    data = (store.root / path).read_bytes()
    count, slot_at = int.from_bytes(data[36:40], "big"), 40 + 4 * 5
    previous = int.from_bytes(data[slot_at : slot_at + 4], "big")
    store.write(path, store.index_entry(count), struct.pack(">iqii", 5, 1, 0, previous))
    store.write(path, slot_at, struct.pack(">i", count))
    store.write(path, 24, struct.pack(">q", 1))
    store.write(path, 36, struct.pack(">i", count + 1))
    return "index-extra-entry", path, store.index_entry(count)


def checkpoint_field(offset: int, check: str) -> Callable[[Store], Expected]:
    def harm(store: Store) -> Expected:
        store.change("checkpoint", offset + 1, 64)
        return check, "checkpoint", offset

    return harm


def checkpoint_cut(store: Store) -> Expected:
    store.cut("checkpoint", 100)
    return "checkpoint-size", "checkpoint", 100


def config(data: bytes, offset: int) -> Callable[[Store], Expected]:
    def harm(store: Store) -> Expected:
        (store.root / "config").mkdir(exist_ok=True)
        (store.root / "config/topics.json").write_bytes(data)
        return "config-json", "config/topics.json", offset

    return harm


def small_file(name: str) -> Callable[[Store], Expected]:
    def harm(store: Store) -> Expected:
        (store.root / name).write_bytes(bytes(1 << 17))
        return name, name, 1 << 16

    return harm


HARMS: dict[str, Callable[[Store], Expected]] = {
    "size": message_field(0, "message-size", mask=64),
    "magic": message_field(5, "message-magic", 4),
    "stored CRC": message_field(8, "message-crc", 88),
    "queue id": message_field(15, "message-queue", 0, mask=64),
    "queue offset": message_field(27, "message-queue-offset", 20, mask=64),
    "physical offset": message_field(35, "message-physical-offset", 28),
    "body": body,
    "topic length": topic_length,
    "topic": topic,
    "key": key,
    "store timestamp": store_timestamp,
    "delay": delay,
    "filler size": filler_size,
    "filler magic": filler_magic,
    "behind the log": stray_byte,
    "zeroed message": hole,
    "zeroed tail": torn,
    "last body": last_body,
    "cut CommitLog": log_cut,
    "missing CommitLog": log_gap,
    "entry offset": queue_field(0, "consume-queue-offset"),
    "entry size": queue_field(8, "consume-queue-size"),
    "entry tagsCode": queue_field(12, "consume-queue-tags-code"),
    "zeroed entry": queue_entry_zero,
    "entry too many": queue_extra,
    "behind the queue": queue_stray,
    "cut queue": queue_cut,
    "missing queue file": queue_gap,
    "missing queue": queue_missing,
    "index hash": index_field(0, "index-entry-hash"),
    "index hash, same slot or not": index_field(0, "index-entry-hash", 255),
    "index offset": index_field(4, "index-entry-offset"),
    "index time": index_field(12, "index-entry-time"),
    "index link": index_field(16, "index-link"),
    "index link to itself": index_cycle,
    "index slot": index_slot(None),
    "index slot beyond": index_slot(1 << 30),
    "index slot negative": index_slot(-5),
    "index slot empty": index_slot(0),
    "header begin time": header_field(0, 8),
    "header end time": header_field(8, 8),
    "header begin offset": header_field(16, 8),
    "header end offset": header_field(24, 8),
    "header slot count": header_field(32, 4),
    "header count": header_field(36, 4),
    "cut index": index_cut,
    "behind the index": index_stray,
    "missing index": index_missing,
    "index entry too many": index_extra,
    "checkpoint time": checkpoint_field(8, "checkpoint-time"),
    "checkpoint offset": checkpoint_field(40, "checkpoint-offset"),
    "cut checkpoint": checkpoint_cut,
    "config": config(b'{"a":{1:2}', 10),
    "config with other types": config(b'{"topicConfigTable":{"T":5}}', 0),
    "abort": small_file("abort"),
    "lock": small_file("lock"),
}


@pytest.mark.parametrize("harm", cases(HARMS.values(), 3), ids=HARMS)
def test_one_harm_is_one_finding(store: Store, harm: Callable[[Store], Expected]) -> None:
    assert store.found() == []
    assert [harm(store)] == store.found()


def test_every_check_has_a_harm() -> None:
    tested_elsewhere = {"message-property-crc", "unreadable", "unfinished-publication"}  # no golden store has the first
    checks = set()
    for harm in HARMS.values():
        checks |= _constants(harm) & set(CHECKS)
    names = {check for check in CHECKS if check.endswith(("-name", "-other-file"))}
    assert set(CHECKS) - checks - names == tested_elsewhere


def _constants(function: Callable[[Store], Expected]) -> set[object]:
    cells = {cell.cell_contents for cell in function.__closure__ or ()}
    found: set[object] = set()
    for value in (*function.__code__.co_consts, *cells):
        found |= set(value) if isinstance(value, tuple) else {value}
    return found


def test_finding_says_what_and_how_to_mend(store: Store) -> None:
    path, at = store.queue_entry(store.plain_message()[2])
    store.change(path, at + 11)
    (finding,) = store.verify().findings
    size = store.plain_message()[2].size_bytes
    assert finding.to_json() == {
        "check": "consume-queue-size",
        "path": str(store.root / path),
        "position": at + 8,
        "message": finding.message,
        "expected": str(size),
        "found": str(size ^ 1),
        "mend": f"logdex rebuild {store.root} --output DIR",
    }


def test_messages_behind_damage_are_checked_too(store: Store) -> None:
    first, second = store.plain_message(20), store.plain_message(150)
    store.change(first[0], first[1] + 5)
    store.change(second[0], second[1] + 35)
    assert store.found() == [
        ("message-magic", first[0], first[1] + 4),
        ("message-physical-offset", second[0], second[1] + 28),
    ]
