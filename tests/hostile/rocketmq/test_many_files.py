"""Stores of thousands of queues and files under a small limit of open files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.helpers import rows_of
from tests.directories import digests
from tests.examples import some
from tests.hostile.few_descriptors import run_json_limited, run_limited
from tests.unit.rocketmq.small_stores import CONFIG, build, message

GEOMETRY = ["--mapped-file-size-commit-log", 2048, "--mapped-file-size-consume-queue", 40]
GEOMETRY += ["--max-hash-slot-num", 7, "--max-index-num", 12, "--rocketmq-version", "5.5.0"]
SMALL = replace(CONFIG, mapped_file_size_consume_queue=40)
PER_QUEUE = 3
"""Messages, in two files each."""


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("queues", [140, 4000])
def test_many_queues_and_files_under_a_small_limit(tmp_path: Path, queues: int) -> None:
    messages = [
        replace(message(place * queues + queue, keys=f"key-{queue}", queue_id=queue), queue_offset=place)
        for place in range(PER_QUEUE)
        for queue in range(queues)
    ]
    root = build(tmp_path / "store", messages, SMALL)
    assert len(list((root / "commitlog").iterdir())) >= queues // 5
    assert len(list((root / "index").iterdir())) > queues // 3
    told = run_json_limited("info", root, *GEOMETRY)
    assert sum(each.get("max_offset") == PER_QUEUE for each in told) == queues
    assert run_json_limited("verify", root, *GEOMETRY)[-1]["messages"] == len(messages)
    for queue in some((queues - 1, 0), 2):
        found = run_json_limited("query", root, "--topic", "TopicA", "--key", f"key-{queue}", *GEOMETRY)
        assert [each["queue_offset"] for each in found if "queue_offset" in each] == [2, 1, 0]
    out = tmp_path / "out"
    run_limited("rebuild", root, "-o", out, "--no-sync", *GEOMETRY)
    for folder in ("consumequeue", "index"):
        assert digests(out / folder) == digests(root / folder)
    scanned = run_limited("cat", root, "--json", *GEOMETRY)
    assert len(rows_of(scanned)) == len(messages)


_WRITES = """
import os, sys
from logdex.rocketmq import Message, MessageStore

path, queues = sys.argv[1], int(sys.argv[2])
sizes = dict(mapped_file_size_commit_log=2048, mapped_file_size_consume_queue=40, max_hash_slot_num=7, max_index_num=12)

def work(store, turns, first):
    for turn in turns:
        for queue in range(queues):
            put = store.put_message(Message("T", b"x", keys=f"k{queue}", queue_id=queue))
            assert put.is_stored and put.queue_offset == turn, put
        store.dispatch()
    for queue in range(queues):
        assert len(store.get_message("T", queue, first, 9).messages) == turns[-1] + 1 - first
    for queue in range(0, queues, 50):
        assert len(store.query_message("T", f"k{queue}").messages) == turns[-1] + 1
    store.flush()

def opened(**options):
    return MessageStore.open(path, background=False, default_topic_queue_nums=queues, **sizes, **options)

with opened(unique_keys=False) as store:
    work(store, range(3), 0)
store = opened()
assert store.load_report.was_clean
work(store, range(3, 5), 0)
store._core.close_files()  # as a killed process leaves it
store._dispatch.close_files()
store._core.process_lock.release()
with opened() as store:
    assert not store.load_report.was_clean
    work(store, range(5, 6), 0)
    print(len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0)
"""


@pytest.mark.parametrize("queues", [160, pytest.param(3000, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])
def test_a_store_of_many_queues_is_written_under_a_small_limit(tmp_path: Path, queues: int) -> None:
    assert int(run_limited("-c", _WRITES, tmp_path / "store", queues)) < 256
    assert run_json_limited("verify", tmp_path / "store", *GEOMETRY)[-1]["messages"] == 6 * queues
