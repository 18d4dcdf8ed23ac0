"""A read through a plan gives the rows of a full scan that are wanted, whatever has become of the
ConsumeQueues."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from logdex.errors import CrcMismatchError
from logdex.layout.rocketmq import SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK
from logdex.rocketmq.columns.message_arrow import SCHEMA, messages_to_batch
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.read.message_scan import LogScan
from logdex.rocketmq.read.parts import part_reader, picked_messages, queue_guide
from logdex.rocketmq.read.plan import ReadPlan
from logdex.rocketmq.read.read_filter import QueueRange, ReadFilter
from logdex.rocketmq.scan import scanner
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.testing.store_builder import make_message
from tests.examples import examples
from tests.unit.rocketmq.small_stores import CONFIG, FILE_SIZE, START_MS, build

TOPICS = (b"TopicA", b"TopicB", b"SCHEDULE_TOPIC_XXXX")
Item = tuple[int, StoredMessage]


def random_messages(chance: Random, count: int, *, same_size: bool) -> list[StoredMessage]:
    """Messages of several queues, some of open transactions; clocks go back now and then, queue
    offsets begin anew. Where all have the same size, entries that are wrong may still fit those
    beside them."""
    next_offsets: dict[tuple[bytes, int], int] = {}
    time_ms = START_MS
    messages = []
    for number in range(count):
        topics = TOPICS[:2] if same_size else TOPICS[:2] * 5 + TOPICS
        topic, queue_id = chance.choice(topics), chance.choice((0, 0, 1, 2))
        if chance.random() < 0.02:
            next_offsets.pop((topic, queue_id), None)
        offset = next_offsets.get((topic, queue_id), chance.choice((0, 0, 3)))
        sys_flag = chance.choice((0,) * 12 + (SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK))
        if not sys_flag:
            next_offsets[topic, queue_id] = offset + 1
        time_ms += chance.choice((0, 10, 1_000, -5, -100_000 if chance.random() < 0.1 else 1))
        properties = [(b"UNIQ_KEY", b"u-%d" % number), (b"KEYS", b" ".join(chance.sample([b"hot", b"Aa", b"BB"], 2)))]
        properties += [(b"TAGS", chance.choice((b"red", b"Aa", b"BB")))] if chance.random() < 0.8 else []
        properties += [(b"DELAY", b"3")] if topic == TOPICS[2] else []
        body = chance.randbytes(chance.choice((0, 5, 60, 400)))
        if same_size:
            name = number % 60 + 20
            properties = [(b"UNIQ_KEY", b"u-%d" % name), (b"KEYS", b"hot"), (b"TAGS", chance.choice((b"Aa", b"BB")))]
            body = chance.randbytes(50)
        messages.append(
            make_message(
                topic,
                queue_id=queue_id,
                queue_offset=offset,
                body=body,
                store_timestamp_ms=time_ms,
                sys_flag=sys_flag,
                properties=properties,
            )
        )
    return messages


def time_slack_ms(messages: list[StoredMessage]) -> int:
    """By how much store times go back at most."""
    times = [message.store_timestamp_ms for message in messages]
    return max(before - time_ms for before, time_ms in zip(accumulate(times, max), times, strict=True))


def tear(root: Path, chance: Random) -> None:
    """Harms the end of the log: its last message is cut or zeroed from some byte on, or no message
    is behind it."""
    path = max(path for path in (root / "commitlog").iterdir() if any(path.read_bytes()))
    data = bytearray(path.read_bytes())
    end = len(bytes(data).rstrip(b"\0"))
    at = max(end - chance.choice((1, 20, 100, 150)), 0)
    how = chance.choice(("cut", "zero", "hole", "garbage", "short file"))
    if how in ("zero", "hole"):
        to = len(data) if how == "zero" else at + 10
        data[at:to] = bytes(to - at)
    elif how == "garbage":
        data[end : end + 40] = chance.randbytes(len(data[end : end + 40]))
    path.write_bytes(data[:at] if how == "cut" else data[: end + 3] if how == "short file" else data)


def lose(queue: Path, older: Path, chance: Random, changed: int) -> None:
    shutil.rmtree(queue)


def take_older(queue: Path, older: Path, chance: Random, changed: int) -> None:
    if older.is_dir():
        shutil.rmtree(queue)
        shutil.copytree(older, queue)


def swap(queue: Path, older: Path, chance: Random, changed: int) -> None:
    first, second, aside = (queue.with_name(name) for name in ("0", "1", "aside"))
    if first.is_dir() and second.is_dir():
        first.rename(aside)
        second.rename(first)
        aside.rename(second)


def change_file(queue: Path, older: Path, chance: Random, changed: int) -> None:
    """A file is lost or shorter, or an entry is flipped (in its first `changed` bytes), zero,
    another one, or that of another queue."""
    path = chance.choice(sorted(queue.iterdir()))
    data = bytearray(path.read_bytes())
    entry, other = (20 * chance.randrange(max(len(data) // 20, 1)) for _ in range(2))
    how = chance.choice(("lose", "shorten", "flip", "drop", "repeat", "borrow", "borrow"))
    if how == "shorten":
        data[entry:] = bytes(len(data) - entry)
    elif how == "flip":
        for _ in range(3):
            data[entry + chance.randrange(changed)] ^= 1 << chance.randrange(8)
    elif how in ("drop", "repeat"):
        data[entry : entry + 20] = bytes(20) if how == "drop" else data[other : other + 20]
    elif how == "borrow":
        others = [other for other in sorted(queue.parent.parent.glob(f"*/*/{path.name}")) if other != path]
        lent = chance.choice(others).read_bytes() if others else bytes(data)
        data[entry : entry + 20] = lent[entry : entry + 20]
    path.write_bytes(data)
    if how == "lose":
        path.unlink()


def harm_queues(root: Path, older: Path, chance: Random, *, tags: bool) -> None:
    """Some queues are lost, of an older log, those of another queue, or harmed. `tags`: the tags'
    hashes may be wrong, which nothing but reading every message shows."""
    queues = sorted(path for path in (root / "consumequeue").glob("*/*") if path.is_dir())
    for queue in chance.sample(queues, min(chance.randrange(4), len(queues))):
        if queue.is_dir() and any(queue.iterdir()):
            how = chance.choice((lose, take_older, swap, change_file, change_file, change_file))
            how(queue, older / queue.relative_to(root), chance, 20 if tags else 12)


def make_store(folder: Path, seed: int, *, tags: bool = False) -> Path:
    """A random store."""
    chance = Random(seed)
    same_size = chance.random() < 0.4
    messages = random_messages(chance, chance.choice((0, 1, 20, 60, 90)), same_size=same_size)
    start = chance.choice((0, 4 * FILE_SIZE))
    root = build(folder / "store", messages, start_offset=start)
    older = messages[: len(messages) // 2] + random_messages(Random(seed + 1), 20, same_size=same_size)
    build(folder / "older", older, start_offset=start)
    if messages and chance.random() < 0.3:
        tear(root, chance)
    if chance.random() < 0.8:
        harm_queues(root, folder / "older", chance, tags=tags)
    return root


def passes(wanted: ReadFilter, offset: int, message: StoredMessage) -> bool:
    """The filter, said plainly."""
    return (
        wanted.topic in (None, message.topic)
        and (wanted.queue_ids is None or message.queue_id in wanted.queue_ids)
        and (wanted.begin_ms is None or message.store_timestamp_ms >= wanted.begin_ms)
        and (wanted.end_ms is None or message.store_timestamp_ms <= wanted.end_ms)
        and (wanted.begin_queue_offset is None or message.queue_offset >= wanted.begin_queue_offset)
        and (wanted.end_queue_offset is None or message.queue_offset < wanted.end_queue_offset)
        and all(in_range(each, message) for each in wanted.queue_ranges)
        and (wanted.begin_offset is None or offset >= wanted.begin_offset)
        and (wanted.end_offset is None or offset < wanted.end_offset)
        and (wanted.tags is None or message.tags in wanted.tags)
        and (wanted.key is None or has_key(wanted, message))
    )


def in_range(wanted: QueueRange, message: StoredMessage) -> bool:
    is_above = wanted.begin is None or message.queue_offset >= wanted.begin
    is_below = wanted.end is None or message.queue_offset < wanted.end
    return (message.topic, message.queue_id) != (wanted.topic, wanted.queue_id) or (is_above and is_below)


def has_key(wanted: ReadFilter, message: StoredMessage) -> bool:
    is_key = wanted.key == message.unique_key or wanted.key in message.keys
    is_asked = wanted.key == message.tags if wanted.index_type else is_key
    return is_asked and message.transaction_type != SYS_FLAG_ROLLBACK


def optional(values: Iterable[int]) -> st.SearchStrategy[int | None]:
    return st.none() | st.sampled_from(list(values))


QUEUE_RANGES = st.builds(
    QueueRange, st.sampled_from([*TOPICS, b"none"]), st.integers(0, 2), optional((0, 2, 7)), optional((0, 5, 1 << 70))
)
FILTERS = st.builds(
    ReadFilter,
    queue_ranges=st.just(()) | st.lists(QUEUE_RANGES, max_size=3).map(tuple),
    topic=st.sampled_from([None, *TOPICS, b"none"]),
    queue_ids=st.none() | st.sets(st.sampled_from((0, 1, 9)), min_size=1).map(frozenset),
    begin_ms=optional((START_MS - 50_000, START_MS + 5_000)),
    end_ms=optional((START_MS - 50_000, START_MS + 9_000)),
    begin_queue_offset=optional((0, 2, 7)),
    end_queue_offset=optional((5, 9)),
    tags=st.none() | st.sampled_from([frozenset([b"red"]), frozenset([b"Aa", b"other"]), frozenset([b"BB", b""])]),
)
RANGES = st.tuples(optional((0, 700, 2_500, 9_000, 10_100)), optional((600, 3_000, 9_500, 12_000)))


def patch_sizes(patched: pytest.MonkeyPatch, data: st.DataObject) -> None:
    """Small pieces, blocks and batches; ConsumeQueues are used whether it is worth it or not."""
    patched.setattr(part_reader, "PIECE_BYTES", data.draw(st.sampled_from([300, 1_000, 1 << 28])))
    patched.setattr(picked_messages, "BATCH_BYTES", data.draw(st.sampled_from([1, 700, 1 << 24])))
    patched.setattr(picked_messages, "JOIN_BYTES", data.draw(st.sampled_from([0, 300, 4096])))
    patched.setattr(picked_messages, "BODY_BYTES_MIN", data.draw(st.sampled_from([200, 4096])))
    patched.setattr(queue_guide, "RANGES_MAX", data.draw(st.sampled_from([1, 64])))
    patched.setattr(queue_guide, "RANGE_BYTES_MIN", data.draw(st.sampled_from([100, 1_000])))
    patched.setattr(scanner, "PART_BLOCK_BYTES", data.draw(st.sampled_from([100, 1 << 16])))
    if data.draw(st.integers(0, 4)):
        patched.setattr(queue_guide, "is_worth_it", lambda guide, begin: True)


def rows_of_plan(plan: ReadPlan) -> pa.Table:
    """What the splits give, one after the other, each pickled before."""
    batches = []
    for split in plan.splits:
        batches += list(pickle.loads(pickle.dumps(split)).to_batches())
    return pa.Table.from_batches(batches, plan.schema)


def check_rows(table: pa.Table, items: list[Item], columns: list[str] | None) -> None:
    expected = pa.Table.from_batches([messages_to_batch(items)], SCHEMA)
    assert table.to_pylist() == (expected if columns is None else expected.select(columns)).to_pylist()


@settings(max_examples=examples(80), deadline=None)
@given(st.integers(0, 1 << 32), FILTERS, st.integers(0, 12), st.data())
def test_scans_give_the_rows_and_the_end_of_a_full_scan(
    seed: int, wanted: ReadFilter, limit: int, data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        root = make_store(Path(folder), seed, tags=wanted.tags is None)
        with StoreSnapshot(str(root), config=CONFIG) as store:
            full = store.scan()
            everything = list(full.items())
            # Who does not read the last message's body does not find that its CRC is wrong.
            assume(full.end is not None and not isinstance(full.end.error, CrcMismatchError))
            patch_sizes(patched, data)
            expected = [item for item in everything if passes(wanted, *item)]
            scan = LogScan(store.plan_source(wanted), wanted)
            assert list(scan.items()) == expected
            assert scan.end is not None
            assert full.end is not None
            assert (scan.end.offset, scan.end.kind) == (full.end.offset, full.end.kind)
            columns = data.draw(st.sampled_from([None, ["physical_offset"], ["tags", "body"], ["msg_id", "keys"]]))
            check_rows(scan.arrow_reader(columns).read_all(), expected, columns)
            some = LogScan(store.plan_source(wanted), wanted, limit or None)
            assert list(some.items()) == expected[: limit or None]


@settings(max_examples=examples(80), deadline=None)
@given(st.integers(0, 1 << 32), FILTERS, RANGES, st.sampled_from([None, 200, 1_000]), st.data())
def test_plans_give_the_rows_of_a_full_scan(
    seed: int, wanted: ReadFilter, offsets: tuple[int | None, int | None], split_bytes: int | None, data: st.DataObject
) -> None:
    wanted = replace(wanted, begin_offset=offsets[0], end_offset=offsets[1])
    if wanted.topic is not None and data.draw(st.booleans()):
        by_tag = data.draw(st.booleans())
        key = data.draw(st.sampled_from([b"BB", b"hot", b"u-7"]))
        wanted = replace(wanted, key=key, index_type="T" if by_tag else None)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        root = make_store(Path(folder), seed, tags=wanted.tags is None)
        if data.draw(st.booleans()):
            shutil.rmtree(root / "index", ignore_errors=True)
        with StoreSnapshot(str(root), config=CONFIG) as store:
            everything = list(store.scan().items())
            patch_sizes(patched, data)
            slack = data.draw(st.none() | st.just(1_000_000_000))
            columns = data.draw(st.sampled_from([None, ["physical_offset"], ["tags", "body"], ["msg_id", "keys"]]))
            plan = store.plan_read(wanted, columns=columns, split_bytes=split_bytes, time_slack_ms=slack)
            check_rows(rows_of_plan(plan), [item for item in everything if passes(wanted, *item)], columns)
            assert plan.total_bytes == sum(file.size_bytes for file in store.commit_log.files)
            assert 0 <= plan.pruned_bytes <= plan.total_bytes
            assert 0 <= plan.pruned_files <= plan.total_files


def test_pickled_splits_give_the_same_in_another_process(tmp_path: Path) -> None:
    root = build(tmp_path / "store", random_messages(Random(1), 90, same_size=False))
    with StoreSnapshot(str(root), config=CONFIG) as store:
        plan = store.plan_read(ReadFilter(topic=b"TopicA"), columns=["physical_offset", "queue_id"], split_bytes=900)
        expected = rows_of_plan(plan).to_pylist()
    assert len(plan.splits) > 4
    assert expected
    (tmp_path / "splits").write_bytes(pickle.dumps(plan.splits))
    code = (
        "import json, pickle, sys\n"
        "splits = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(json.dumps([row for split in splits for batch in split.to_batches() for row in batch.to_pylist()]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "splits")], capture_output=True, env=os.environ, check=True
    )
    assert json.loads(done.stdout) == expected
