"""The two ways in which the engine's doReput fails: a message whose size is wrong is passed over,
and where there is no message at all, the dispatch stops. Puts go on in both. What whoever waits is
told, and the order of what a dispatch does on the disk."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from logdex.errors import CorruptError, UnreadableError
from logdex.rocketmq import Message, MessageStore, PutMessageResult
from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.index_file.index_file import IndexFile
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.testing import FaultEnv
from logdex.testing.bad_sectors import BadSectorsEnv
from tests.unit.rocketmq.message_store.open_stores import SIZES, crash, open_store


def put(store: MessageStore, *numbers: int) -> list[PutMessageResult]:
    return [store.put_message(Message("orders", b"%d" % number, keys=f"k{number}", queue_id=0)) for number in numbers]


def overwrite(root: Path, offset: int, data: bytes) -> None:
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_a_wrong_size_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = tmp_path / "store"
    store = open_store(root)
    _, second, third, fourth = put(store, 1, 2, 3, 4)
    overwrite(root, second.physical_offset, (second.size_bytes + third.size_bytes).to_bytes(4, "big"))
    with caplog.at_level(logging.WARNING):
        store.dispatch()
    assert [record.getMessage() for record in caplog.records] == [
        f"the dispatch passes over the message at {second.physical_offset}: its size is wrong"
    ]
    assert (store.dispatch_behind_bytes, store.stats.dispatch_passed_over) == (0, 1)
    put(store, 5)
    store.dispatch()
    assert [len(store.query_message("orders", f"k{number}").messages) for number in range(1, 6)] == [1, 0, 0, 1, 1]
    assert store.get_message("orders", 0, 3).phy_offsets[0] == fourth.physical_offset
    crash(store)


def test_a_read_tells_how_far_the_dispatch_is_behind(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        put(store, 1)
        early = store.get_message("orders", 0, 0), store.get_columns("orders", 0, 0)
        assert {each.status.name for each in early} == {"NO_MATCHED_LOGIC_QUEUE"}
        assert {each.dispatch_behind_bytes for each in early} == {store.dispatch_behind_bytes} != {0}
        assert f"dispatch_behind_bytes={store.dispatch_behind_bytes}" in repr(early[0])
        assert (store.topics(), store.wait_dispatched(), store.topics()) == ({}, True, {"orders": [0]})
        put(store, 2)
        for count, behind in ((1, 0), (2, store.dispatch_behind_bytes)):
            found = store.get_message("orders", 0, 0, count), store.get_columns("orders", 0, 0, count)
            assert [(each.message_count, each.dispatch_behind_bytes) for each in found] == [(1, behind)] * 2
        store.dispatch()
        assert store.get_message("orders", 0, 0).dispatch_behind_bytes == 0


@pytest.mark.parametrize("harm", ["magic", "size"])
def test_without_a_message_the_dispatch_stops(harm: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = open_store(root)
    _, second, _ = put(store, 1, 2, 3)
    at = second.physical_offset
    overwrite(root, at if harm == "size" else at + 4, (1 << 30).to_bytes(4, "big"))
    for _ in range(2):
        with pytest.raises(CorruptError, match="the dispatch stops"):
            store.dispatch()
    assert put(store, 4)[0].is_stored
    assert store.dispatch_behind_bytes == store.max_phy_offset - at
    assert len(store.query_message("orders", "k1").messages) == 1
    crash(store)


@pytest.mark.parametrize("first", [0, 8192])
def test_where_the_log_cannot_be_read_the_dispatch_stops(first: int, tmp_path: Path) -> None:
    """What is before the page is dispatched, and the error is not that of a damaged message."""
    root = tmp_path / "store"
    log = str(root / "commitlog" / f"{0:020d}")
    store = open_store(root, env=BadSectorsEnv({log: [(first, first + 1)]}), mapped_file_size_commit_log=1 << 16)
    results = put(store, *range(100))
    for _ in range(2):
        with pytest.raises(UnreadableError, match="cannot be read"):
            store.dispatch()
    assert store.dispatch_behind_bytes >= store.max_phy_offset - first > 0
    before = [result for result in results if result.physical_offset + result.size_bytes <= first]
    assert [queue.max_offset for queue in store.queues()] == [len(before)][: len(before)]
    assert put(store, 100)[0].is_stored
    crash(store)


@pytest.mark.parametrize("timeout_s", [0, 0.01])
def test_who_waits_is_told_that_the_time_is_over(timeout_s: float, tmp_path: Path) -> None:
    with open_store(tmp_path / "store", background=True) as store:
        with store._dispatch.lock:
            put(store, 1)
            assert not store.wait_dispatched(timeout_s)
            assert store.dispatch_behind_bytes == store.max_phy_offset
        assert store.wait_dispatched(60)
        assert store.wait_dispatched(timeout_s)  # nothing is left to wait for


def test_who_waits_is_told_what_stopped_the_dispatch(tmp_path: Path) -> None:
    """By its thread: whoever waits has not called it."""
    root = tmp_path / "store"
    store = open_store(root, background=True)
    try:
        with store._dispatch.lock:
            _, second, _ = put(store, 1, 2, 3)
            overwrite(root, second.physical_offset + 4, bytes(4))
            assert not store.wait_dispatched(0)
        for timeout_s in (60, 60, None):
            with pytest.raises(CorruptError, match="the dispatch stops"):
                store.wait_dispatched(timeout_s)
        assert store.dispatch_behind_bytes == store.max_phy_offset - second.physical_offset
    finally:
        assert store._background is not None
        store._background.stop()
        crash(store)


def test_a_full_index_file_is_on_disk_before_the_next_one_is_made(tmp_path: Path) -> None:
    """And the log that it points into, before the checkpoint vouches for it."""
    root, env = tmp_path / "store", FaultEnv(str(tmp_path))
    with open_store(root, env=env, unique_keys=False, mapped_file_size_commit_log=1 << 16) as store:
        put(store, *range(50))
        store.dispatch()
        [full] = (root / "index").iterdir()
        vouched = StoreCheckpoint.read(root / "checkpoint").index_msg_timestamp_ms
        put(store, *range(50, 80))
        before = len(env.log)
        store.dispatch()
        calls = [(kind, str(Path(path).relative_to(root))) for kind, path in env.log[before:]]
        first, second = sorted(f"index/{path.name}" for path in (root / "index").iterdir())
        assert first == f"index/{full.name}"
        order = [
            ("sync", first),
            ("sync_dir", "index"),
            ("open_write", second),
            ("sync", f"commitlog/{0:020d}"),
            ("open_write", "checkpoint"),
            ("sync", "checkpoint"),
        ]
        assert [call for call in calls if call in order] == order
        with IndexFile(full, StoreConfig(**SIZES)) as file:
            assert file.is_write_full
            ended = file.header.end_timestamp_ms
        assert vouched < ended
        assert StoreCheckpoint.read(root / "checkpoint").index_msg_timestamp_ms == ended
        last = store.query_message("orders", "k58").messages[0]  # entry 0 is unused
        assert (last.store_timestamp_ms, store.dispatch_behind_bytes) == (ended, 0)
