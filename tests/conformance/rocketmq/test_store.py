"""A whole store, opened read-only, against what the real engine read and answered; the directory
stays as it is."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.errors import MissingFileError, UsageError
from logdex.io.env import Env
from logdex.rocketmq.commit_log.commit_log import AHEAD_BYTES
from logdex.rocketmq.index_file.index_keys import key_hash_of
from logdex.rocketmq.message.message_json import message_to_json
from logdex.rocketmq.read.keys.entry_blocks import SINGLE_READS
from logdex.rocketmq.read.keys.quick_query import CHAIN_MAX
from logdex.rocketmq.read.results import GetMessageStatus
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.conftest import GoldenStore
from tests.golden import rocketmq as golden

VARIANTS = [
    (name, recovered)
    for name in golden.NAMES
    for recovered in ([False, True] if golden.has_recovered(name) else [False])
]
"""Every directory; the manifest's `messages` and `exact` hold for all of them."""

QUESTIONS_MAX = 150
"""Of a store's questions, evenly spread; the others are asked by `scripts/test --all`."""


def questions_of(name: str, recovered: bool) -> list[Any]:
    """(name, recovered, first question, every how many-th from there)."""
    step = -(-len(golden.manifest(name)["queries"]) // QUESTIONS_MAX)
    return [
        pytest.param(name, recovered, first, step, marks=[pytest.mark.slow] if first else []) for first in range(step)
    ]


AS_THE_ENGINE_LEFT_IT = [(name, golden.has_recovered(name)) for name in golden.NAMES]
"""The directories that the rest of the manifest describes."""


class WithTimes(Env):
    """Packed stores keep modification times in whole seconds: the engine saw one within that
    second."""

    def __init__(self, late_ms: int) -> None:
        super().__init__()
        self.late_ms = late_ms

    def modified_ns(self, path: str) -> int:
        return super().modified_ns(path) + self.late_ms * 1_000_000


def geometry_of(name: str) -> dict[str, Any]:
    manifest = golden.manifest(name)
    sizes = manifest["geometry"]
    return {
        "mapped_file_size_commit_log": sizes["commitLogFileSize"],
        "mapped_file_size_consume_queue": sizes["consumeQueueEntries"] * 20,
        "max_hash_slot_num": sizes["hashSlots"],
        "max_index_num": sizes["maxIndexNum"],
        "rocketmq_version": manifest["rocketmq"],
    }


def open_case(root: Path, name: str, env: Env | None = None) -> StoreSnapshot:
    store = logdex.open(str(root), env=env, **geometry_of(name))
    assert isinstance(store, StoreSnapshot)
    return store


def fingerprint(root: Path) -> dict[str, tuple[int, int, str]]:
    """Length, modification time and digest of every file below a directory, and the folders'
    times."""
    found = {}
    for path in sorted(root.rglob("*")):
        status = path.stat()
        digest = ""
        if path.is_file() and status.st_size < 1 << 24:  # default geometry: sparse files of a gigabyte
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path)] = (status.st_size, status.st_mtime_ns, digest)
    return found


@pytest.mark.parametrize(
    ("name", "recovered", "first", "step"), [each for variant in VARIANTS for each in questions_of(*variant)]
)
def test_queries_mean_what_a_person_means(
    name: str, recovered: bool, first: int, step: int, golden_store: GoldenStore
) -> None:
    manifest = golden.manifest(name)
    with open_case(golden_store(name, recovered=recovered), name) as store:
        for question in manifest["queries"][first::step]:
            asked = (question["topic"], question["key"], question["begin"], question["end"])
            if not golden.can_be_meant(question):
                with pytest.raises((UsageError, MissingFileError)):
                    store.query_message(*asked, index_type=question["indexType"])
                assert question["exact"] == []
                continue
            every = store.query_message(*asked, scan_missing=True, index_type=question["indexType"])
            assert list(every.phy_offsets) == sorted(question["exact"], reverse=True), question
            assert every.complete
            indexed = store.query_message(*asked, index_type=question["indexType"])
            assert set(indexed.phy_offsets) <= set(every.phy_offsets)
            if indexed.complete:
                assert indexed.phy_offsets == every.phy_offsets
            else:
                assert indexed.missing == every.missing != ()
                assert all(
                    any(begin <= offset < end for begin, end in indexed.missing)
                    for offset in set(every.phy_offsets) - set(indexed.phy_offsets)
                )


@pytest.mark.parametrize(("name", "recovered"), AS_THE_ENGINE_LEFT_IT)
def test_queries_are_answered_as_by_the_broker(name: str, recovered: bool, golden_store: GoldenStore) -> None:
    with open_case(golden_store(name, recovered=recovered), name) as store:
        for question in golden.manifest(name)["queries"]:
            found = store.query_message(
                *(question["topic"], question["key"], question["begin"], question["end"], question["max"]),
                broker_semantics=True,
                index_type=question["indexType"],
            )
            assert list(found.phy_offsets) == question["physicalOffsets"], question
            assert found.index_last_update_timestamp == question["indexLastUpdateTimestamp"]
            assert found.index_last_update_phyoffset == question["indexLastUpdatePhyoffset"]


@pytest.mark.parametrize(("name", "recovered"), VARIANTS)
def test_pages_together_are_the_whole_answer(name: str, recovered: bool, golden_store: GoldenStore) -> None:
    often = max(golden.manifest(name)["queries"], key=lambda question: len(question["exact"]))
    asked = (often["topic"], often["key"], often["begin"], often["end"])
    with open_case(golden_store(name, recovered=recovered), name) as store:
        pages, cursor = [], None
        while True:
            page = store.query_message(*asked, 3, scan_missing=True, cursor=cursor, index_type=often["indexType"])
            pages.append(page.phy_offsets)
            cursor = page.next_cursor
            if cursor is None:
                break
        assert [len(page) for page in pages[:-1]] == [3] * (len(pages) - 1)
        assert len(pages[-1]) > 0
        assert [offset for page in pages for offset in page] == sorted(often["exact"], reverse=True)


@pytest.mark.parametrize(("name", "recovered"), VARIANTS)
def test_messages_and_the_end_of_the_log(name: str, recovered: bool, golden_store: GoldenStore) -> None:
    manifest = golden.manifest(name)
    with open_case(golden_store(name, recovered=recovered), name) as store:
        scan = store.scan()
        found = list(scan.items())
        assert [offset for offset, _ in found] == [message["physicalOffset"] for message in manifest["messages"]]
        assert scan.end is not None
        assert store.valid_end_offset == scan.end.offset == manifest["store"]["maxPhyOffset"]
        for (offset, message), expected in zip(found, manifest["messages"], strict=True):
            as_json = message_to_json(message, offset)
            assert as_json["msg_id"] == expected["msgId"]
            assert as_json["body"] == expected["body"]
            assert as_json["store_timestamp_ms"] == expected["storeTimestamp"]
            assert (as_json["topic"], as_json["queue_id"]) == (expected["topic"], expected["queueId"])
            assert message.properties_raw.decode() == expected["properties"]
            assert store.look_message(expected["msgId"]) == message


@pytest.mark.parametrize(("name", "recovered"), AS_THE_ENGINE_LEFT_IT)
def test_queues_and_the_two_step_read(name: str, recovered: bool, golden_store: GoldenStore) -> None:
    manifest = golden.manifest(name)
    with open_case(golden_store(name, recovered=recovered), name) as store:
        queues = {(queue.topic.decode(), queue.queue_id): queue for queue in store.queues() if queue.max_offset}
        bounds = {(queue["topic"], queue["queueId"]): (queue["min"], queue["max"]) for queue in manifest["queues"]}
        assert {key: (queue.min_offset, queue.max_offset) for key, queue in queues.items()} == bounds
        handed_out = []
        for (topic, queue_id), (low, high) in sorted(bounds.items()):
            at = low
            while at < high:
                result = store.get_message(topic, queue_id, at, 32)
                assert result.status is GetMessageStatus.FOUND
                assert result.next_begin_offset > at
                for message, phy_offset in zip(result.messages, result.phy_offsets, strict=True):
                    handed_out.append([topic, queue_id, message.queue_offset, phy_offset, message.size_bytes])
                at = result.next_begin_offset
        assert handed_out == sorted(entry[:5] for entry in manifest["entries"] if entry[6])


@pytest.mark.parametrize(("name", "recovered"), AS_THE_ENGINE_LEFT_IT)
def test_times_are_answered_as_by_the_engine(name: str, recovered: bool, golden_store: GoldenStore) -> None:
    root = golden_store(name, recovered=recovered)
    with open_case(root, name, WithTimes(0)) as early, open_case(root, name, WithTimes(999)) as late:
        for question in golden.manifest(name)["times"]:
            asked = (question["topic"], question["queueId"], question["time"])
            answers = {store.get_offset_in_queue_by_time(*asked) for store in (early, late)}
            assert question["offset"] in answers
            if question["offsetUpper"] is not None:
                assert answers == {question["offset"]}
                assert early.get_offset_in_queue_by_time(*asked, "upper") == question["offsetUpper"]


@pytest.mark.parametrize(("name", "recovered"), VARIANTS)
def test_reading_changes_nothing(name: str, recovered: bool, golden_copy: GoldenStore) -> None:
    root = golden_copy(name, recovered=recovered)
    before = fingerprint(root)
    env = Env()
    with open_case(root, name, env) as store:
        question = next(each for each in golden.manifest(name)["queries"] if golden.can_be_meant(each))
        store.query_message(question["topic"], question["key"], scan_missing=True)
        store.queues()
        assert list(store.scan(limit=5))
        store.look_message_by_offset(golden.manifest(name)["messages"][-1]["physicalOffset"])
    assert fingerprint(root) == before
    assert env.counters.written_bytes == 0
    assert before  # there was something to compare


@pytest.mark.parametrize("name", [name for name in golden.NAMES if not golden.manifest(name)["unclean"]])
def test_a_look_up_reads_its_chain_and_its_messages_alone(name: str, golden_store: GoldenStore) -> None:
    env = Env()
    sizes = {message["physicalOffset"]: message["size"] for message in golden.manifest(name)["messages"]}
    with open_case(golden_store(name), name, env) as store:
        assert store.missing_ranges() == ()
        assert env.counters.read_bytes < 1 << 20  # for the end of the log and the entries that are held against it
        for question in golden.manifest(name)["queries"][::10]:
            if question["topic"] == "NoTopic":
                continue
            key_hash = key_hash_of(question["topic"], question["key"])
            chains = [[entry for _, entry in file.chain(key_hash)] for file in store.index_service.files]
            named = {entry.phy_offset for chain in chains for entry in chain if entry.key_hash == key_hash}
            before = env.counters.read_bytes
            answer = store.query_message(question["topic"], question["key"])
            used = env.counters.read_bytes - before
            links = sum(4 + 20 * len(chain) for chain in chains)
            least = links + sum(sizes.get(offset, 0) for offset in named)
            most = links + sum(max(sizes[offset], AHEAD_BYTES) for offset in named if offset in sizes)
            longest = max(map(len, chains))
            if longest >= CHAIN_MAX or named != set(answer.phy_offsets):
                most *= 2  # the short way was tried first
            assert least <= used <= most + (4096 if longest > SINGLE_READS else 0)
            assert answer.expired == len(named - set(sizes))
        assert env.counters.mapped_bytes == 0
