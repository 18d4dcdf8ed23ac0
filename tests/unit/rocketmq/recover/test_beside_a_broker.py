"""A broker appends, removes and cuts files while they are recovered: what it took away is no loss,
and no message that it had put is left out."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import StoreError, VanishedError
from logdex.io.env import Env, ReadFile
from logdex.io.process_lock import take_lock
from logdex.jobs import look_again
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from logdex.rocketmq.recover import recover, whole_pieces
from logdex.rocketmq.scan.resume import find_behind
from logdex.testing.store_builder import write_commit_log
from tests.beside import Beside
from tests.unit.rocketmq.recover.test_recover import clean, damage, recovered, saved
from tests.unit.rocketmq.small_stores import CONFIG, FILE_SIZE, MESSAGES, build, message

FIRST, SECOND = (f"commitlog/{number * FILE_SIZE:020d}" for number in (0, 1))
MORE = [message(number) for number in range(40, 44)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build(tmp_path / "store", MESSAGES)


@pytest.mark.parametrize("number", [1, 2, 3], ids=["first", "second", "third"])
def test_a_first_file_that_retention_removes_is_no_loss(number: int, root: Path, tmp_path: Path) -> None:
    env = Beside(FIRST, (root / FIRST).unlink, number)
    report = recovered(root, tmp_path, env=env)
    assert env.has_acted
    assert report.skipped == []
    kept = saved(tmp_path / "out")
    assert kept == list(range(kept[0], 40))
    assert kept[0] > 0
    assert clean(tmp_path / "out")


@pytest.mark.parametrize("number", range(1, 8))
def test_messages_that_are_put_meanwhile_are_whole_or_not_there(number: int, root: Path, tmp_path: Path) -> None:
    last = sorted((root / "commitlog").iterdir())[-1]
    write_commit_log(str(tmp_path / "later"), MESSAGES + MORE, FILE_SIZE)

    def put() -> None:
        for path in (tmp_path / "later" / "commitlog").iterdir():
            shutil.copyfile(path, root / "commitlog" / path.name)

    env = Beside(f"commitlog/{last.name}", put, number)
    report = recovered(root, tmp_path, env=env)
    assert [each for each in report.skipped if each.is_loss] == []
    kept = saved(tmp_path / "out")
    assert kept == list(range(len(kept)))
    assert len(kept) >= 40
    assert clean(tmp_path / "out")


@pytest.mark.parametrize("count", [1, 2, 9])
def test_messages_that_are_put_while_the_end_is_looked_at(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into the same file, and into the one that was made ahead."""
    config = replace(CONFIG, mapped_file_size_commit_log=8192)
    with MessageStore.open(tmp_path / "store", mapped_file_size_commit_log=8192, background=False) as store:

        def put(count: int) -> None:
            for _ in range(count):
                assert store.put_message(Message("t", b"x" * 700, queue_id=0)).is_stored

        put(8)
        left = [count]

        def find(*given: Any) -> int | None:
            if left:
                put(left.pop())
            return find_behind(*given)

        monkeypatch.setattr(whole_pieces, "find_behind", find)
        report = recover(tmp_path / "store", tmp_path / "out", config, sync=False)
    assert left == []
    assert [each for each in report.skipped if each.is_loss] == []
    assert report.messages == 8 + count


def test_damage_that_stays_is_a_loss_beside_a_writer(root: Path, tmp_path: Path) -> None:
    damage(root, 7)
    (root / "lock").write_text("lock")
    lock = take_lock(str(root / "lock"), env=Env())
    with lock:  # type: ignore[union-attr]
        report = recovered(root, tmp_path)
    assert len([each for each in report.skipped if each.is_loss]) == 1
    assert len([note for note in report.notes if "its log may go on meanwhile" in note]) == 1


def test_a_file_that_is_cut_while_it_is_copied_is_read_again(root: Path, tmp_path: Path) -> None:
    last = sorted((root / "commitlog").iterdir())[-1]
    env = Beside(f"commitlog/{last.name}", lambda: os.truncate(last, 100), 3)
    report = recovered(root, tmp_path, env=env)
    assert env.has_acted
    kept = saved(tmp_path / "out")
    assert kept == list(range(len(kept)))
    assert 0 < len(kept) < 40
    assert report.messages == len(kept)
    assert clean(tmp_path / "out")


def test_one_file_that_is_removed_is_an_error(root: Path, tmp_path: Path) -> None:
    env = Beside(FIRST, (root / FIRST).unlink, 2)
    with pytest.raises(StoreError):
        recover(root / FIRST, tmp_path / "out", CONFIG, env=env, sync=False)
    assert not list((tmp_path / "out").glob("*"))


def test_files_that_keep_going_away_are_an_error(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Vanishing(Env):
        def open_read(self, path: str) -> ReadFile:
            if path.endswith(SECOND):
                raise VanishedError("no such file", path=path)
            return super().open_read(path)

    monkeypatch.setattr(look_again, "PAUSE_S", 0)
    with pytest.raises(VanishedError):
        recovered(root, tmp_path, env=Vanishing())
    assert not list((tmp_path / "out").glob("*"))
