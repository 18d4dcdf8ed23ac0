"""The files of a log that is written, as other threads see them, and when the next one cannot be
made."""

from __future__ import annotations

import errno
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdex.io.env import DEFAULT_ENV
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.log_files import LogFiles
from logdex.rocketmq.message_store.put.message import Message, PutMessageResult, PutMessageStatus
from logdex.testing import Fault, FaultEnv
from tests.unit.rocketmq.message_store.open_stores import open_store, require_sound

FILE = 64


def test_no_step_of_the_end_of_a_file_shows_a_wrong_end(tmp_path: Path) -> None:
    """Threads that do not hold the store's lock, such as the dispatch, look at the end at any
    time."""
    files, seen = LogFiles(DEFAULT_ENV, str(tmp_path), FILE, 0), list[int]()
    files.append(bytes(40))
    files.prepare()

    def trace(frame: object, event: str, _: object) -> object:
        seen.append(files.end_offset)
        return trace

    former = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        files.end_file(lambda sync: sync()).close()
    finally:
        sys.settrace(former)
    files.close()
    assert set(seen) == {40, FILE}


@pytest.mark.parametrize("flush", ["sync", "async"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE, errno.EIO], ids=errno.errorcode.get)
def test_a_file_that_cannot_be_made_refuses_the_put(code: int, flush: str, tmp_path: Path) -> None:
    """In each way to put; nothing of it is written, and the store goes on when there is room."""
    env = FaultEnv(str(tmp_path))
    with open_store(tmp_path / "store", env=env, flush=flush) as store:
        large = Message("orders", bytes(3000), queue_id=0)
        row: dict[str, Any] = {"topic": ["orders"], "queue_id": [0], "body": [bytes(3000)]}
        light = pa.array([[("INNER_MULTI_DISPATCH", "%LMQ%a")]], pa.map_(pa.string(), pa.string()))
        ways: dict[str, Callable[[], PutMessageResult]] = {
            "message": lambda: store.put_message(large),
            "tagged": lambda: store.put_message(replace(large, properties={"color": "red"})),
            "messages": lambda: store.put_messages([large]),
            "half": lambda: store.put_half(large),
            "columns": lambda: store.put_columns(pa.table(row)),
            "light": lambda: store.put_columns(pa.table({**row, "properties": light})),
        }
        for put in ways.values():  # makes the topics
            assert put().is_stored
        for name, put in ways.items():
            end = store.max_phy_offset
            kinds = frozenset({"open_write"})
            env.fault = Fault(0, errno=code, kinds=kinds, lasting=True)
            for _ in range(2):
                refused = put()
                assert (refused.status, refused.is_stored) == (PutMessageStatus.CREATE_MAPPED_FILE_FAILED, False), name
                assert refused.remark == "the next CommitLog file cannot be made"
            assert store.max_phy_offset == end
            env.fault = None
            assert put().status is PutMessageStatus.PUT_OK
    require_sound(tmp_path / "store")


def test_rows_before_the_file_that_cannot_be_made_are_put(tmp_path: Path) -> None:
    """The status says why the rest is not, and `msg_num` how many are."""
    env = FaultEnv(str(tmp_path))
    with open_store(tmp_path / "store", env=env) as store:
        store.put_message(Message("orders", queue_id=0))
        kinds = frozenset({"open_write"})
        env.fault = Fault(0, errno=errno.ENOSPC, kinds=kinds, lasting=True)
        put = store.put_columns(pa.table({"topic": ["orders"] * 9, "queue_id": [0] * 9, "body": [bytes(900)] * 9}))
        env.fault = None
        assert put.status is PutMessageStatus.CREATE_MAPPED_FILE_FAILED
        assert 0 < put.msg_num < 9
        store.dispatch()
        assert store.get_message("orders", 0, 0, 99).max_offset == 1 + put.msg_num
    require_sound(tmp_path / "store")


@pytest.mark.parametrize("again", [False, True], ids=["removed", "replaced"])
def test_a_file_made_ahead_that_is_gone_is_made_again(again: bool, tmp_path: Path) -> None:
    """A broker that is started on an open store removes it, and only then does it look at the
    lock."""
    with open_store(tmp_path / "store") as store:
        for number in range(30):
            store._core.prepare_file()
            ahead = max((tmp_path / "store" / "commitlog").iterdir())
            if number % 2:
                ahead.unlink()
                if again:
                    ahead.write_bytes(bytes(4096))
            assert store.put_message(Message("orders", bytes(900), queue_id=0)).is_stored
        store.dispatch()
        store._core.prepare_file()
        max((tmp_path / "store" / "commitlog").iterdir()).unlink()
    with open_store(tmp_path / "store") as store:
        assert store.load_report.was_clean
        assert len(store.get_message("orders", 0, 0, 100).messages) == 30
    require_sound(tmp_path / "store")


def test_the_next_file_is_made_ahead(tmp_path: Path) -> None:
    """At the opening, and by the thread that flushes the log after each roll: no put waits for
    it."""
    with_thread = {"background": True, "flush_interval_commit_log_ms": 1}

    def newest() -> int:
        return max(int(path.name) for path in (tmp_path / "store" / "commitlog").iterdir())

    for end in (0, 2 * 4096 + 2600):
        with open_store(tmp_path / "store"):
            assert newest() == end // 4096 * 4096 + 4096
        with open_store(tmp_path / "store", unique_keys=False, **with_thread) as store:
            assert store.max_phy_offset == end
            for _ in range(3):
                assert newest() == store.max_phy_offset // 4096 * 4096 + 4096
                before = newest()
                store.put_message(Message("orders", bytes(2600 - 97), queue_id=0))
                until_s = time.monotonic() + 5
                while newest() == before and store.max_phy_offset > before and time.monotonic() < until_s:
                    time.sleep(0.002)


def test_files_have_a_gibibyte_by_default(tmp_path: Path) -> None:
    """The file that is written and the one after it; they are sparse."""
    with MessageStore.open(tmp_path / "store", background=False) as store:
        assert store.put_message(Message("orders", b"x")).is_stored
        files = sorted((tmp_path / "store" / "commitlog").iterdir())
        assert [(int(file.name), file.stat().st_size) for file in files] == [(0, 1 << 30), (1 << 30, 1 << 30)]
        assert sum(512 * file.stat().st_blocks for file in files) < 1 << 20
