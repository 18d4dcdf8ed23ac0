"""The overview tells of ConsumeQueue files that are missing, as far as few reads show it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.snapshot.overview import overview
from tests.golden import rocketmq as golden
from tests.unit.rocketmq.small_stores import CONFIG, build, message

FILE_BYTES = CONFIG.consume_queue_file_size_bytes


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with a queue of 40 messages in three files, and another one of 20 messages, which are
    the newest but one."""
    first = [message(number) for number in range(39)]
    other = [message(number, queue_id=1) for number in range(20)]
    return build(tmp_path / "store", [*first, *other, message(39)])


def problems(root: Path) -> list[str]:
    return overview(str(root), CONFIG).problems


@pytest.mark.parametrize("name", [name for name in golden.NAMES if name != "default-geometry"])
def test_nothing_is_missing_in_a_brokers_store(name: str, golden_store: Callable[..., Path]) -> None:
    root = str(golden_store(name))
    found = overview(root, resolve_config(root)).problems
    assert [problem for problem in found if "ConsumeQueue" in problem] == []


def test_a_missing_file_between_others(root: Path) -> None:
    (root / "consumequeue" / "TopicA" / "0" / f"{16 * 20:020d}").unlink()
    (told,) = problems(root)
    assert f"TopicA/0/{16 * 20:020d}: this ConsumeQueue file is missing: logdex rebuild derives it" in told


@pytest.mark.parametrize(("kept", "ends"), [(2, 32), (1, 16)])
@pytest.mark.parametrize("is_emptied", [False, True], ids=["removed", "zeros"])
def test_missing_last_files(kept: int, ends: int, is_emptied: bool, root: Path) -> None:
    for path in sorted((root / "consumequeue" / "TopicA" / "0").iterdir())[kept:]:
        path.unlink()
        if is_emptied:
            path.write_bytes(bytes(FILE_BYTES))
    (told,) = problems(root)
    assert f"TopicA has messages in queue 0 that its ConsumeQueue lacks, which ends at queue offset {ends}" in told
    (root / "abort").write_text("1")
    assert problems(root) == []


@pytest.mark.parametrize("what", ["folder", "files"])
def test_a_missing_queue_of_a_topic(what: str, root: Path) -> None:
    queue = root / "consumequeue" / "TopicA" / "1"
    shutil.rmtree(queue)
    if what == "files":
        queue.mkdir()
    (told,) = problems(root)
    assert "TopicA has messages in queue 1, one at offset" in told
    shutil.rmtree(queue.parent)
    queue.mkdir(parents=True)
    (told,) = problems(root)
    assert "the topic TopicA has messages, one at offset 0, and no ConsumeQueue: logdex rebuild" in told


def test_old_messages_of_a_topic_that_was_created_again(tmp_path: Path) -> None:
    """Its queue 0 begins anew, and its old queue 1 is gone."""
    old = [message(number, queue_id=number % 2) for number in range(24)]
    root = build(tmp_path / "store", [*old, message(0), message(1)])
    shutil.rmtree(root / "consumequeue" / "TopicA" / "1", ignore_errors=True)
    assert problems(root) == []
