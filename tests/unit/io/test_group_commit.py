"""Group commit: one fsync for many threads, nobody told too early, and nothing acknowledged after a
failure."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from logdex.errors import LogFailedError
from logdex.io import group_commit
from logdex.io.group_commit import GroupCommit

WAIT_S = 20


class Disk:
    """What was appended and what of it is synced; an fsync takes a while, can be held up and can
    fail."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.commit = GroupCommit(self.lock, self.begin, path="log")
        self.appended = self.synced = self.fsyncs = self.ends = self.at_once = 0
        self.error: BaseException | None = None
        self.refusal: Exception | None = None
        self.under_way, self.go = threading.Event(), threading.Event()
        self.go.set()

    @contextmanager
    def begin(self) -> Iterator[Callable[[], None]]:
        if self.refusal is not None:
            raise self.refusal
        try:
            yield self.flush
        finally:
            assert self.lock._is_owned()  # type: ignore[attr-defined]  # what Condition asks too
            self.ends += 1

    def flush(self) -> None:
        self.at_once += 1
        assert self.at_once == 1
        self.fsyncs += 1
        upto = self.appended
        self.under_way.set()
        assert self.go.wait(WAIT_S)
        time.sleep(0.001)
        self.at_once -= 1
        if self.error is not None:
            raise self.error
        self.synced = max(self.synced, upto)

    def append(self) -> int:
        with self.lock:
            self.appended += 1
            return self.commit.next_ticket()

    def hold_up(self) -> None:
        self.under_way.clear()
        self.go.clear()


class Waiting:
    """A thread that appends and waits; `outcome` is None until it is told."""

    def __init__(self, disk: Disk, ticket: int | None = None) -> None:
        self.ticket = disk.append() if ticket is None else ticket
        self.outcome: object = None
        self._disk = disk
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._disk.commit.wait(self.ticket)
            assert self._disk.synced >= self.ticket, "told too early"
            self.outcome = "durable"
        except BaseException as error:
            self.outcome = error

    def joined(self) -> object:
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        return self.outcome


def held_up(disk: Disk) -> Waiting:
    """A thread whose fsync is under way until `disk.go`."""
    disk.hold_up()
    first = Waiting(disk)
    assert disk.under_way.wait(WAIT_S)
    return first


def test_threads_that_wait_together_share_an_fsync() -> None:
    disk = Disk()
    first = held_up(disk)
    others = [Waiting(disk) for _ in range(8)]
    time.sleep(0.05)
    assert {other.outcome for other in others} == {None}  # what they appended is not part of the first fsync
    disk.go.set()
    assert [each.joined() for each in (first, *others)] == ["durable"] * 9
    assert (disk.fsyncs, disk.synced, disk.ends) == (2, 9, 2)


def test_nobody_returns_before_its_bytes_are_synced() -> None:
    disk, each, wrong = Disk(), 60, list[int]()

    def work() -> None:
        for _ in range(each):
            ticket = disk.append()
            disk.commit.wait(ticket)
            if disk.synced < ticket:
                wrong.append(ticket)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert wrong == []
    assert disk.synced == disk.appended == 8 * each
    assert disk.fsyncs < disk.appended


def test_what_is_synced_already_costs_nothing() -> None:
    disk = Disk()
    early, late = disk.append(), disk.append()
    disk.commit.wait(late)
    disk.commit.wait(early)
    disk.commit.wait(0)
    assert disk.fsyncs == 1


@pytest.mark.parametrize("error", [OSError("broken"), KeyboardInterrupt(), MemoryError()])
def test_a_failed_fsync_fails_all_that_waited_and_everything_after_it(error: BaseException) -> None:
    disk = Disk()
    durable = disk.append()
    disk.commit.wait(durable)
    first = held_up(disk)
    others = [Waiting(disk) for _ in range(5)]
    disk.error = error
    disk.go.set()
    assert first.joined() is error
    assert {type(other.joined()) for other in others} == {LogFailedError}
    assert disk.commit.failed is error
    disk.error = None  # the system says that all is well now; it has told the first who asked
    fsyncs = disk.fsyncs
    with pytest.raises(LogFailedError, match="a write failed"):
        disk.commit.wait(disk.append())
    with pytest.raises(LogFailedError):
        disk.commit.sync(disk.flush)
    assert disk.fsyncs == fsyncs == 2
    disk.commit.wait(durable)  # that was acknowledged
    assert not disk.commit.is_syncing


def test_an_fsync_by_other_means_that_failed_is_believed_by_those_who_wait() -> None:
    """Such as that of a segment that is rolled: it runs under the lock, while no other fsync
    does."""
    disk, outcomes = Disk(), list[object]()
    disk.append()
    disk.hold_up()
    disk.error = OSError("broken")

    def roll() -> None:
        try:
            disk.commit.sync(disk.flush)
        except OSError as error:
            outcomes.append(error)

    thread = threading.Thread(target=roll)
    thread.start()
    assert disk.under_way.wait(WAIT_S)
    waiting = Waiting(disk)
    time.sleep(0.02)
    disk.go.set()
    thread.join(WAIT_S)
    assert outcomes == [disk.error]
    assert isinstance(waiting.joined(), LogFailedError)
    assert (disk.fsyncs, disk.synced) == (1, 0)


def test_a_write_that_failed_wakes_those_who_wait() -> None:
    disk = Disk()
    first = held_up(disk)
    other = Waiting(disk)
    time.sleep(0.02)
    with disk.lock:
        disk.commit.fail(OSError("full"))
        disk.commit.fail(OSError("fuller"))
    assert isinstance(other.joined(), LogFailedError)
    assert str(disk.commit.failed) == "full"
    disk.go.set()
    assert first.joined() == "durable"  # its bytes are on disk


def test_a_refused_fsync_fails_nobody_else() -> None:
    disk = Disk()
    ticket = disk.append()
    disk.refusal = ValueError("a forked child")
    with pytest.raises(ValueError, match="forked"):
        disk.commit.wait(ticket)
    disk.refusal = None
    disk.commit.wait(ticket)
    assert (disk.fsyncs, disk.commit.failed) == (1, None)


def test_if_each_fsync_is_refused_each_thread_is_told() -> None:
    disk = Disk()
    first = held_up(disk)
    others = [Waiting(disk) for _ in range(3)]
    time.sleep(0.02)
    disk.refusal = ValueError("a forked child")
    disk.go.set()
    assert first.joined() == "durable"
    assert [other.joined() for other in others] == [disk.refusal] * 3


def test_who_waits_no_longer_leaves_the_next_fsync_to_others() -> None:
    disk = Disk()
    first = held_up(disk)
    assert not disk.commit.wait(disk.append(), 0.01)
    others = [Waiting(disk) for _ in range(3)]
    time.sleep(0.02)
    disk.go.set()
    assert [each.joined() for each in (first, *others)] == ["durable"] * 4
    assert (disk.fsyncs, disk.synced) == (2, 5)


def test_threads_that_give_up_now_and_then_hold_nobody_up() -> None:
    disk, wrong, given_up = Disk(), list[int](), list[int]()

    def work(number: int) -> None:
        chance = random.Random(number)
        for _ in range(40):
            ticket = disk.append()
            if not disk.commit.wait(ticket, chance.choice((None, 0.0, 0.0005, 0.001, 0.002))):
                given_up.append(ticket)
            elif disk.synced < ticket:
                wrong.append(ticket)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()
    assert (wrong, given_up == []) == ([], False)


def test_who_changes_files_waits_until_nobody_syncs() -> None:
    disk, seen = Disk(), list[tuple[bool, int]]()
    first = held_up(disk)

    def change() -> None:
        with disk.lock:
            disk.commit.wait_until_idle()
            seen.append((disk.commit.is_syncing, disk.synced))

    thread = threading.Thread(target=change)
    thread.start()
    time.sleep(0.02)
    assert seen == []
    disk.go.set()
    thread.join(WAIT_S)
    assert seen == [(False, 1)]
    assert first.joined() == "durable"


def test_what_is_made_durable_by_other_means_is_not_waited_for() -> None:
    disk = Disk()
    first = held_up(disk)
    other = Waiting(disk)
    time.sleep(0.02)
    with disk.lock:
        disk.synced = disk.appended
        disk.commit.all_is_durable()
    assert other.joined() == "durable"
    disk.go.set()
    assert first.joined() == "durable"
    assert disk.fsyncs == 1


@pytest.mark.parametrize("comes_again", [True, False])
def test_an_fsync_waits_a_moment_for_the_threads_that_were_just_woken(
    comes_again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "_GATHER_PART_MIN", 1e9)
    monkeypatch.setattr(group_commit, "_GATHER_PART_MAX", 8e9)
    monkeypatch.setattr(group_commit, "_GATHER_S_MAX", WAIT_S if comes_again else 0.05)
    disk = Disk()
    first = held_up(disk)
    others = [Waiting(disk) for _ in range(8)]
    while len(disk.commit._waiting) < 8:
        time.sleep(0.001)
    disk.go.set()
    assert [each.joined() for each in (first, *others)] == ["durable"] * 9
    assert disk.fsyncs == 2  # at the end of the second one, seven threads were woken
    disk.commit._gather_part = 4e9
    last = Waiting(disk)
    if comes_again:
        time.sleep(0.05)
        assert disk.fsyncs == 2
        others = [Waiting(disk) for _ in range(7)]
    assert [each.joined() for each in (last, *others)] == ["durable"] * (1 + len(others))
    assert disk.fsyncs == 3
    assert disk.commit._gather_part == (8e9 if comes_again else 2e9)  # it waits longer for those that come
