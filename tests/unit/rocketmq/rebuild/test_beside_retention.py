"""A rebuild while a broker removes files of the log that it has not read yet: what it writes is
that of the whole log, or of what is left."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from logdex.rocketmq.rebuild import RebuildReport, rebuild, rebuild_on
from logdex.testing.store_builder import make_message
from tests.beside import At
from tests.directories import contents
from tests.examples import some
from tests.unit.rocketmq.rebuild.test_job import Serial
from tests.unit.rocketmq.small_stores import CONFIG, build

FILES_REMOVED = 3


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which the second life of Again begins in a file that the broker removes, as do and
    end all messages of Old."""
    kept = [make_message(b"Kept", queue_offset=number, properties=[(b"KEYS", b"k")]) for number in range(60)]
    first = [make_message(b"Again", queue_offset=number) for number in range(9)]
    second = [make_message(b"Again", queue_offset=number) for number in range(40)]
    old = [make_message(b"Old", queue_offset=number) for number in range(2)]
    return build(
        tmp_path_factory.mktemp("retention") / "store",
        [*kept[:2], *first, *old, *second[:3], *kept[2:30], *second[3:], *kept[30:]],
    )


def remove_old_files(store: Path) -> None:
    for path in sorted((store / "commitlog").iterdir())[:FILES_REMOVED]:
        path.unlink()


@pytest.fixture(scope="module")
def expected(store: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, bytes]]:
    """What a rebuild writes of the whole log, and of what is left of it."""
    directory = tmp_path_factory.mktemp("expected")
    left = Path(shutil.copytree(store, directory / "left"))
    remove_old_files(left)
    for root, name in ((store, "before"), (left, "after")):
        report = rebuild(root, directory / name, CONFIG, sync=False)
        assert report.losses == []
    whole, rest = contents(directory / "before"), contents(directory / "after")
    again = "consumequeue/Again/0/" + "0" * 20
    assert whole[again] != rest.get(again)
    return [whole, rest]


def require_one_of(expected: list[dict[str, bytes]], output: Path, report: RebuildReport) -> bool:
    """Requires that a rebuild wrote one of what is expected. Returns whether it met removed
    files."""
    assert report.losses == []
    assert report.stale_queues == 0
    is_trimmed = any("removed by the broker meanwhile" in note for note in report.notes)
    whole, rest = expected
    assert contents(output) in ([rest] if is_trimmed else [rest, whole])
    return is_trimmed


def test_files_expire_before_any_operation(store: Path, expected: list[dict[str, bytes]], tmp_path: Path) -> None:
    everything = At(0, lambda: None)
    rebuild(store, tmp_path / "whole", CONFIG, sync=False, env=everything)
    trimmed = 0
    for number in some(range(1, -everything.left + 1), 3):
        root = Path(shutil.copytree(store, tmp_path / str(number)))
        env = At(number, partial(remove_old_files, root))
        output = tmp_path / f"output-{number}"
        trimmed += require_one_of(expected, output, rebuild(root, output, CONFIG, sync=False, env=env))
    assert trimmed > 1


class Removing(Serial):
    """Removes files before one of the tasks."""

    def __init__(self, before: int, store: Path) -> None:
        super().__init__()
        self._left, self._store = before, store

    def run(self, name: str, function: Callable[..., Any], tasks: Sequence[Any]) -> list[Any]:
        def removing(*arguments: Any) -> Any:
            if not self._left:
                remove_old_files(self._store)
            self._left -= 1
            return function(*arguments)

        return super().run(name, removing, tasks)


def test_files_expire_before_any_task(store: Path, expected: list[dict[str, bytes]], tmp_path: Path) -> None:
    trimmed = []
    for before in range(12):
        root = Path(shutil.copytree(store, tmp_path / str(before)))
        output = tmp_path / f"output-{before}"
        report = rebuild_on(Removing(before, root), root, output, CONFIG, sync=False, part_size_bytes=600)
        trimmed.append(require_one_of(expected, output, report))
    assert any(trimmed)
