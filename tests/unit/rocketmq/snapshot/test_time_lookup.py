"""Look-ups by time while a broker removes old files: the answer is that of the whole store, or of
what is left."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from logdex.io.env import Env
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.beside import At, Retention
from tests.examples import some
from tests.unit.rocketmq.small_stores import CONFIG, MESSAGES, START_MS, build, message

TIMES = [START_MS + 1_500 * number for number in (0, 20, 45, 70, 89)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("times") / "store", [*MESSAGES, *map(message, range(40, 90))])


def look_up(root: Path, env: Env) -> list[int]:
    with StoreSnapshot(root, config=CONFIG, env=env) as snapshot:
        return [snapshot.get_offset_in_queue_by_time("TopicA", 0, time_ms) for time_ms in TIMES]


def remove_old_files(root: Path, count: int, left: int) -> None:
    """Removes files of the log and of the queue, as a broker does, until some are left."""
    for folder in ("commitlog", "consumequeue/TopicA/0"):
        for path in sorted((root / folder).iterdir())[:-left][:count]:
            path.unlink()


def test_the_answer_is_of_the_whole_store_or_of_the_rest(store: Path, tmp_path: Path) -> None:
    still = At(0, lambda: None)
    whole = look_up(store, still)
    rest = Path(shutil.copytree(store, tmp_path / "rest"))
    remove_old_files(rest, 3, 2)
    expected = [*zip(whole, look_up(rest, Env()), strict=True)]
    assert any(before != after for before, after in expected)
    for number in some(range(1, -still.left + 1), 5):
        root = Path(shutil.copytree(store, tmp_path / str(number)))
        found = look_up(root, At(number, partial(remove_old_files, root, 3, 2)))
        assert all(one in pair for one, pair in zip(found, expected, strict=True))


def test_files_that_keep_going_away(store: Path, tmp_path: Path) -> None:
    still = At(0, lambda: None)
    newest = look_up(store, still)[-1]
    for number in some(range(1, -still.left + 1), 5):
        root = Path(shutil.copytree(store, tmp_path / str(number)))
        assert look_up(root, Retention(number, 2, partial(remove_old_files, root, 1, 2)))[-1] == newest
