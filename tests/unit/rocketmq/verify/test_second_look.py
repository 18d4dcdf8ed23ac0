"""Brokers that start, end and write while a store is checked: when the check looks again, and what
it then reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.jobs import look_again
from logdex.rocketmq import Message, MessageStore
from logdex.rocketmq.message.stored_message import encode_message
from logdex.rocketmq.verify import verify
from logdex.rocketmq.verify.verifier import BETWEEN_LOOKS
from tests.examples import some
from tests.unit.rocketmq.message_store.open_stores import Clock, crash, open_store
from tests.unit.rocketmq.verify.growing import GrowingStore, WatchedEnv
from tests.unit.rocketmq.verify.test_beside_retention import CONFIG, At, check, fill
from tests.unit.rocketmq.verify.test_verify import SMALL, messages


def write_and(end: Callable[[MessageStore], None], path: Path) -> Callable[[], None]:
    """Opens a store, writes more than one file, and ends it."""

    def act() -> None:
        store = open_store(path)
        fill(store)
        end(store)

    return act


@pytest.mark.parametrize("end", [MessageStore.close, crash])
def test_a_broker_starts_before_any_operation(end: Callable[[MessageStore], None], tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        fill(store)
    everything = At(0, lambda: None)
    check(tmp_path / "store", everything)
    for number in some(range(1, -everything.left + 1), 20):
        path = tmp_path / str(number)
        with open_store(path) as store:
            fill(store)
        check(path, At(number, write_and(end, path)))


@pytest.mark.parametrize("number", range(1, 12))
def test_a_broker_ends_and_another_starts_while_the_check_begins(number: int, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    fill(store)

    def change() -> None:
        store.close()
        write_and(crash, tmp_path / "store")()

    check(tmp_path / "store", At(number, change))


def turn(store: GrowingStore) -> Path:
    """Turns a byte of the first message's body, and returns its file."""
    path = store.root / "commitlog" / f"{0:020d}"
    with path.open("r+b") as file:
        at = encode_message(store.rows[0]).index(store.rows[0].body)
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
    return path


def test_damage_is_found_beside_a_broker_that_writes(tmp_path: Path) -> None:
    store = GrowingStore(tmp_path / "store", messages(60), 20, SMALL)
    path = turn(store)
    report = verify(str(store.root), SMALL, env=WatchedEnv(store, 3))
    assert [(finding.check, finding.path) for finding in report.findings] == [("message-crc", str(path))]


def test_what_only_one_of_two_looks_finds_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = GrowingStore(tmp_path / "store", messages(60), 20, SMALL)
    turn(store)
    turns: list[Path] = []

    def pause(share: float = 1.0) -> None:
        if share == BETWEEN_LOOKS:
            turns.append(turn(store))

    monkeypatch.setattr(look_again, "pause", pause)
    assert verify(str(store.root), SMALL, env=WatchedEnv(store, 3)).is_sound
    assert len(turns) == 1


def test_the_clock_went_back_and_the_newest_message_expired(tmp_path: Path) -> None:
    """The checkpoint states the time of the last full IndexFile, whose messages have expired."""
    clock = Clock()
    with open_store(tmp_path / "store", clock_ms=clock, unique_keys=False) as store:
        fill(store)
        store.flush()
        clock.now_ms -= 3_600_000
        for number in range(100):
            store.put_message(Message("orders", b"%d" % number * 20, queue_id=0))
        store.dispatch()
        assert store.delete_expired(0, disk_ratio=0.0).commit_log_files
    report = verify(str(tmp_path / "store"), CONFIG)
    assert [str(finding) for finding in report.findings] == []
