"""By which messages a reader notices that a log was cut, and where it goes on."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from logdex.rocketmq.snapshot import read_mark
from logdex.rocketmq.snapshot.read_mark import SeenMessages
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.unit.rocketmq.small_stores import MESSAGES, build, message, opened

CUT_AT = 25


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    other = [message(number, body=b"body %d" % number, tag="C") for number in range(CUT_AT, 60)]
    return build(tmp_path / "old", MESSAGES), build(tmp_path / "new", MESSAGES[:CUT_AT] + other)


def read_all(snapshot: StoreSnapshot, seen: SeenMessages) -> list[int]:
    assert seen.look(snapshot.valid_end) is None
    items = list(snapshot.scan().items())
    for at, each in items:
        seen.add(at, each)
    return [at for at, _ in items]


def replace_store(root: Path, by: Path) -> None:
    shutil.rmtree(root)
    shutil.copytree(by, root)


@pytest.mark.parametrize("most", [4096, 16, 6])
def test_goes_on_behind_the_newest_message_that_is_there(
    most: int, roots: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_mark, "SEEN_MAX", most)
    with opened(roots[0]) as snapshot:
        seen = SeenMessages(snapshot.commit_log)
        places = read_all(snapshot, seen)
        assert (seen.is_cut(), seen.look(snapshot.valid_end)) == (False, None)
        replace_store(*roots)
        snapshot.refresh()
        assert seen.is_cut()
        found = seen.look(snapshot.valid_end)
        assert found in places[1 : CUT_AT + 1]
        assert most < len(MESSAGES) or found == places[CUT_AT]
        assert (seen.is_cut(), seen.look(snapshot.valid_end)) == (False, None)


def test_a_cut_while_the_log_is_read(roots: tuple[Path, Path]) -> None:
    """What was read before the cut and what was read after it are both there."""
    with opened(roots[0]) as snapshot:
        seen = SeenMessages(snapshot.commit_log)
        assert seen.look(snapshot.valid_end) is None
        items = list(snapshot.scan().items())
        for at, each in items[: CUT_AT + 3]:
            seen.add(at, each)
        replace_store(*roots)
        snapshot.refresh()
        for at, each in list(snapshot.scan().items())[CUT_AT + 5 :]:
            seen.add(at, each)
        assert seen.look(snapshot.valid_end) == items[CUT_AT][0]


def test_a_cut_between_the_end_and_its_message(roots: tuple[Path, Path]) -> None:
    with opened(roots[0]) as snapshot:
        seen = SeenMessages(snapshot.commit_log)
        end = snapshot.valid_end
        assert end.last_message is not None
        assert seen.look(replace(end, last_message=end.last_message + 1)) is None
        assert seen.is_cut()


def test_another_log(roots: tuple[Path, Path], tmp_path: Path) -> None:
    with opened(roots[0]) as snapshot:
        seen = SeenMessages(snapshot.commit_log)
        read_all(snapshot, seen)
        replace_store(roots[0], build(tmp_path / "other", [message(number, tag="X") for number in range(9)]))
        snapshot.refresh()
        assert (seen.look(snapshot.valid_end), seen.is_cut()) == (0, False)


def test_removed_files_are_no_cut(roots: tuple[Path, Path]) -> None:
    with opened(roots[0]) as snapshot:
        seen = SeenMessages(snapshot.commit_log)
        read_all(snapshot, seen)
        files = sorted((roots[0] / "commitlog").iterdir())
        for path in files[:-1]:
            path.unlink()
        assert (seen.is_cut(), seen.look(snapshot.valid_end)) == (False, None)
        for number, path in enumerate(sorted((roots[1] / "commitlog").iterdir())[-2:], 1):
            name = int(files[-1].name) + number * 2048
            shutil.copy(path, roots[0] / "commitlog" / f"{name:020d}")
        files[-1].unlink()
        snapshot.refresh()
        assert not seen.is_cut()
