"""The readers on stores that real brokers wrote: queues, ids, times, sizes and versions as the
engine has them."""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import GeometryError
from logdex.io.env import Env
from logdex.io.path_look import PathLook
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue, discover_queues
from logdex.rocketmq.consume_queue.offset_by_time import Boundary, QueueBounds, offset_in_queue_by_time
from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.files.config_files import ConsumerOffsets, DelayOffsets, SubscriptionGroups, TopicConfigs
from logdex.rocketmq.files.store_files import StoreFiles
from logdex.rocketmq.geometry.index_geometry import infer_index_geometry
from logdex.rocketmq.geometry.resolve import index_file_paths, resolve_config
from logdex.rocketmq.message.body import decompress_body
from logdex.rocketmq.message.message_id import MessageId, parse_unique_key
from logdex.rocketmq.recognise.layout_check import require_supported_layout
from logdex.rocketmq.settings.dialect import Dialect
from tests.conftest import GoldenStore
from tests.golden import rocketmq as golden

VARIANTS = [
    (name, recovered)
    for name in golden.NAMES
    for recovered in ([False, True] if golden.has_recovered(name) else [False])
]
BROKERS = [name for name in golden.NAMES if any(path.startswith("config/") for path in golden.manifest(name)["files"])]


@pytest.fixture(params=golden.NAMES)
def case(request: pytest.FixtureRequest, golden_store: GoldenStore) -> tuple[dict[str, Any], Path]:
    """A manifest and the directory that its queues and messages describe."""
    manifest = golden.manifest(request.param)
    return manifest, golden_store(request.param, recovered=manifest["unclean"])


def queues_of(root: Path) -> dict[tuple[str, int], ConsumeQueue]:
    return {
        (topic.decode(), queue_id): ConsumeQueue(directory, topic, queue_id)
        for topic, queue_id, directory in discover_queues(str(root))
    }


def _modified_ms(late: int, path: str) -> int:
    return os.stat(path).st_mtime_ns // 1_000_000 + late


def test_there_are_cases() -> None:
    assert golden.NAMES


def test_messages_are_read_by_their_offsets(case: tuple[dict[str, Any], Path]) -> None:
    manifest, root = case
    with CommitLog(str(root / "commitlog")) as log:
        assert log.file_size_bytes == manifest["geometry"]["commitLogFileSize"]
        assert log.min_offset == manifest["store"]["minPhyOffset"]
        assert not log.wrong_sizes
        assert not log.gaps()
        for expected in manifest["messages"]:
            message = log.read_message(expected["physicalOffset"])
            assert message.size_bytes == expected["size"]
            assert message.topic.decode() == expected["topic"]
            assert str(MessageId(message.store_host, message.physical_offset)) == expected["msgId"]
            assert MessageId.parse(expected["msgId"]).physical_offset == expected["physicalOffset"]
            picked = log.pickup_store_timestamp_ms(expected["physicalOffset"], expected["size"])
            assert picked == expected["storeTimestamp"]


def test_queues_have_the_engines_bounds_and_entries(case: tuple[dict[str, Any], Path]) -> None:
    manifest, root = case
    store = manifest["store"]
    queues = queues_of(root)
    bounds, entries = {}, []
    for (topic, queue_id), queue in queues.items():
        assert queue.file_size_bytes == manifest["geometry"]["consumeQueueEntries"] * 20
        assert not queue.wrong_sizes
        low, high = queue.min_offset(store["minPhyOffset"]), queue.max_offset_in(store["maxPhyOffset"])
        bounds[topic, queue_id] = low, high
        rows = queue.entries(low, high - low).tolist()
        entries += [[topic, queue_id, low + place, *row] for place, row in enumerate(rows)]
        assert [queue.entry(low + place).physical_offset for place in range(len(rows))] == [row[0] for row in rows]
    assert bounds == {(queue["topic"], queue["queueId"]): (queue["min"], queue["max"]) for queue in manifest["queues"]}
    assert sorted(entries) == sorted(entry[:6] for entry in manifest["entries"])


def test_the_first_available_offset_is_that_of_a_message_in_the_log(case: tuple[dict[str, Any], Path]) -> None:
    manifest, root = case
    log_min = manifest["store"]["minPhyOffset"]
    held = {message["physicalOffset"] for message in manifest["messages"]}
    for queue in queues_of(root).values():
        first = queue.first_available_offset(log_min)
        assert first >= queue.min_offset(log_min)
        if first < queue.max_offset:
            assert queue.entry(first).physical_offset in held
        if first > queue.start_offset:
            before = queue.entry(first - 1)
            assert before.is_pre_blank or before.physical_offset < log_min


def test_times_are_answered_as_by_the_engine(case: tuple[dict[str, Any], Path]) -> None:
    manifest, root = case
    end, log_min = manifest["store"]["maxPhyOffset"], manifest["store"]["minPhyOffset"]
    dialect = Dialect.of(manifest["rocketmq"])
    log = CommitLog(str(root / "commitlog"))
    queues = queues_of(root)

    def read_time(offset: int, size: int) -> int:
        return log.pickup_store_timestamp_ms(offset, size) if log_min <= offset and offset + size <= end else -1

    def answers(question: dict[str, Any], boundary: Boundary) -> set[int]:
        queue = queues[question["topic"], question["queueId"]]
        bounds = QueueBounds(queue.min_offset(log_min), queue.max_offset_in(end), log_min)
        # The packed stores keep modification times in whole seconds: the engine saw one within that
        # second.
        return {
            offset_in_queue_by_time(
                queue,
                question["time"],
                read_time,
                bounds,
                boundary=boundary,
                dialect=dialect,
                modified_ms=functools.partial(_modified_ms, late),
            )
            for late in ((0,) if dialect.time_has_boundaries else (0, 999))
        }

    boundaries: tuple[tuple[Boundary, str], ...] = (("lower", "offset"), ("upper", "offsetUpper"))
    for question in manifest["times"]:
        for boundary, answer in boundaries:
            if question[answer] is not None:
                assert question[answer] in answers(question, boundary), question


@pytest.mark.parametrize(("name", "recovered"), VARIANTS)
def test_geometry_and_version_are_inferred(name: str, recovered: bool, golden_store: GoldenStore) -> None:
    manifest, root = golden.manifest(name), str(golden_store(name, recovered=recovered))
    expected, version = manifest["geometry"], Dialect.of(manifest["rocketmq"])
    env = Env()
    config = resolve_config(root, env=env)
    assert config.mapped_file_size_commit_log == expected["commitLogFileSize"]
    if list(discover_queues(root)):
        assert config.mapped_file_size_consume_queue == expected["consumeQueueEntries"] * 20
    if index_file_paths(root, env):
        assert (config.max_hash_slot_num, config.max_index_num) == (expected["hashSlots"], expected["maxIndexNum"])
        assert config.dialect.slot_count_every_put == version.slot_count_every_put
        assert config.dialect.tags_in_index == version.tags_in_index
    assert config.evidence
    assert env.counters.read_bytes < 300_000


@pytest.mark.parametrize(("name", "recovered"), VARIANTS)
def test_each_index_file_alone_gives_the_geometry_or_says_that_it_does_not(
    name: str, recovered: bool, golden_store: GoldenStore
) -> None:
    expected = golden.manifest(name)["geometry"]
    for path in index_file_paths(str(golden_store(name, recovered=recovered)), Env()):
        found = None
        with contextlib.suppress(GeometryError):
            found, _ = infer_index_geometry(Env(), [path])
        assert found in (None, (expected["hashSlots"], expected["maxIndexNum"]))


@pytest.mark.parametrize(("name", "recovered"), VARIANTS)
def test_no_golden_store_is_refused_and_the_small_files_are_read(
    name: str, recovered: bool, golden_store: GoldenStore
) -> None:
    manifest, root = golden.manifest(name), golden_store(name, recovered=recovered)
    require_supported_layout(PathLook(root))
    files = StoreFiles.read(str(root))
    assert files.is_unclean == (manifest["unclean"] and not recovered)
    is_5 = manifest["rocketmq"].startswith("5")
    assert (files.process_id is not None) == (files.is_unclean and is_5)
    if files.has_checkpoint:
        checkpoint = StoreCheckpoint.read(str(root / "checkpoint"))
        assert (root / "checkpoint").read_bytes() == checkpoint.pack()
        last = max(message["storeTimestamp"] for message in manifest["messages"])
        assert checkpoint.problems(last_store_timestamp_ms=last, log_end_offset=manifest["store"]["maxPhyOffset"]) == []


@pytest.mark.parametrize("name", BROKERS)
def test_the_brokers_json_and_ids_and_compressed_bodies(name: str, golden_store: GoldenStore) -> None:
    manifest, root = golden.manifest(name), golden_store(name)
    config = str(root / "config")
    maxima = {(queue["topic"].encode(), queue["queueId"]): queue["max"] for queue in manifest["queues"]}
    offsets = ConsumerOffsets.read(config)
    assert (b"Orders", b"G_all") in offsets.offsets
    for (topic, _), queues in offsets.offsets.items():
        for queue_id, offset in queues.items():
            assert 0 <= offset <= maxima.get((topic, queue_id), 0)
    topics = TopicConfigs.read(config).topics
    assert topics[b"Orders"].write_queue_nums == sum(topic == b"Orders" for topic, _ in maxima)
    for level, offset in DelayOffsets.read(config).offsets.items():
        assert offset == maxima[b"SCHEDULE_TOPIC_XXXX", level - 1]
    assert b"G_all" in SubscriptionGroups.read(config).groups
    compressed = 0
    with CommitLog(str(root / "commitlog")) as log:
        for expected in manifest["messages"]:
            message = log.read_message(expected["physicalOffset"])
            if message.sys_flag & 1:
                compressed += 1
                assert len(decompress_body(message)) > len(message.body)
            if message.unique_key:
                key = parse_unique_key(message.unique_key)
                assert str(key).encode() == message.unique_key
                assert 0 <= message.store_timestamp_ms - key.time_near(message.born_timestamp_ms) < 3_600_000
    assert compressed
