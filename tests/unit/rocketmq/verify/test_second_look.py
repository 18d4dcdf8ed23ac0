"""Brokers that start, end and write while a store is checked: when the check looks again, and what
it then reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.jobs import look_again
from logdex.rocketmq import Message, MessageStore
from logdex.rocketmq.message.stored_message import encode_message
from logdex.rocketmq.verify import verifier, verify
from logdex.rocketmq.verify.verifier import BETWEEN_LOOKS
from tests.beside import At
from tests.examples import some
from tests.unit.rocketmq.message_store.open_stores import Clock, crash, open_store
from tests.unit.rocketmq.verify.growing import GrowingStore, WatchedEnv
from tests.unit.rocketmq.verify.test_beside_retention import CONFIG, check, fill
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


def turn(store: GrowingStore, number: int = 0) -> Path:
    """Turns a byte of the body of one of the first messages, and returns its file."""
    path = store.root / "commitlog" / f"{0:020d}"
    with path.open("r+b") as file:
        before = sum(len(encode_message(row)) for row in store.rows[:number])
        at = before + encode_message(store.rows[number]).index(store.rows[number].body)
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


@pytest.mark.parametrize("max_findings", [1000, 0])
def test_what_only_one_of_two_looks_finds_does_not_count(
    max_findings: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = GrowingStore(tmp_path / "store", messages(60), 20, SMALL)
    turn(store)
    turns: list[Path] = []

    def pause(share: float = 1.0) -> None:
        if share == BETWEEN_LOOKS:
            turns.extend((turn(store), turn(store, 1)))

    monkeypatch.setattr(look_again, "pause", pause)
    assert verify(str(store.root), SMALL, env=WatchedEnv(store, 3), max_findings=max_findings).is_sound
    assert len(turns) == 2


def test_a_look_that_lists_all_it_finds_is_compared_with_another_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look finds two and lists one, the second finds another one, the third none."""
    monkeypatch.setattr(verifier, "FINDINGS_MAX", 1)
    store = GrowingStore(tmp_path / "store", messages(60), 20, SMALL)
    turns = iter([(0, 1), (0, 1, 2), (2,)])

    def pause(share: float = 1.0) -> None:
        if share == BETWEEN_LOOKS:
            for number in next(turns):
                turn(store, number)

    pause(BETWEEN_LOOKS)
    monkeypatch.setattr(look_again, "pause", pause)
    report = verify(str(store.root), SMALL, env=WatchedEnv(store, 3), max_findings=1)
    assert report.is_sound, (report.findings, report.truncated)
    assert not [*turns]


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
