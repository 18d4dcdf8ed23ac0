"""A broker keeps removing the oldest files of a log that is recovered: the new log begins behind
them, and has everything that is still there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from logdex.io.env import Env
from logdex.jobs import look_again
from logdex.rocketmq.recover import recover
from logdex.rocketmq.recover.report import RecoverReport
from tests.beside import Retention, retentions
from tests.examples import cases, some
from tests.unit.rocketmq.recover.test_recover import clean, damage, saved
from tests.unit.rocketmq.small_stores import CONFIG, FILE_SIZE, MESSAGES, build, message

FILES_LEFT = 2
DAMAGED = (7, 20, 33)


@pytest.fixture(autouse=True)
def one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removed files alone are no reason to begin again."""
    monkeypatch.setattr(look_again, "LOOKS_MAX", 1)


@pytest.fixture(scope="module", params=[(), DAMAGED], ids=["whole", "damaged"])
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A store, and the messages of it that are whole."""
    root = build(tmp_path_factory.mktemp("retention") / "store", MESSAGES)
    for number in reversed(request.param):  # the last first: a scan ends at damage
        damage(root, number)
    return root, [number for number in range(40) if number not in request.param]


def logs_of(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def remove_oldest(root: Path) -> None:
    for path in logs_of(root)[:-FILES_LEFT][:1]:
        path.unlink()


def require_rest(root: Path, output: Path, whole: list[int], report: RecoverReport) -> None:
    """Requires that `output` has all messages that `root` still has, and that nothing is told of
    others."""
    kept = saved(output)
    assert kept == whole[len(whole) - len(kept) :]
    assert report.messages == len(kept)
    starts = [int(path.name) for path in logs_of(root)]
    begin = int(logs_of(output)[0].name)
    assert begin <= starts[0]
    assert report.placeholders == len(report.skipped)
    assert all(each.physical_offset >= begin for each in report.skipped)
    assert len(report.skipped) == len([number for number in DAMAGED if kept[0] < number and len(whole) < 40])
    assert clean(output)


@pytest.mark.parametrize("step", cases([1, 3, 8, 20, 60], 3, first=1))
def test_the_oldest_files_go_one_by_one(step: int, stored: tuple[Path, list[int]], tmp_path: Path) -> None:
    store, whole = stored
    still = Retention(0, step, lambda: None)
    recover(store, tmp_path / "still", CONFIG, sync=False, env=still)
    noted = 0
    for root, output, env in retentions(store, tmp_path, step, still.count, remove_oldest):
        report = recover(root, output, CONFIG, sync=False, env=env)
        require_rest(root, output, whole, report)
        noted += any("removed by the broker meanwhile" in note for note in report.notes)
    assert noted


def test_a_log_of_which_nothing_is_left_is_looked_at_again(
    stored: tuple[Path, list[int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_again, "LOOKS_MAX", 2)
    store, whole = stored
    root = Path(shutil.copytree(store, tmp_path / "store"))
    later = logs_of(root)[-FILES_LEFT:]
    for path in later:
        path.rename(tmp_path / path.name)

    def go_on() -> None:
        for path in later:
            if not path.exists():
                (tmp_path / path.name).rename(path)
        remove_oldest(root)

    report = recover(root, tmp_path / "out", CONFIG, sync=False, env=Retention(40, 1, go_on))
    require_rest(root, tmp_path / "out", whole, report)
    assert logs_of(root) == later


def rename_the_second(root: Path) -> None:
    logs_of(root)[1].rename(root / "commitlog" / "kept")


def add_an_odd_name(root: Path) -> None:
    """By its name it is no file of the log, and a broker removes it with the first ones."""
    (root / "commitlog" / f"{5:020d}").write_bytes(b"zz" * 500)


def copy_the_second(root: Path) -> None:
    path = logs_of(root)[1]
    shutil.copy(path, f"{path}.bak")


def copy_the_second_to_a_number(root: Path) -> None:
    shutil.copy(logs_of(root)[1], root / "commitlog" / f"{4000 * FILE_SIZE:020d}")


def harm_a_beginning(root: Path) -> None:
    """A file begins with damage, behind which the time of the messages is another one."""
    path = logs_of(root)[1]
    path.write_bytes(b"\xff" * 60 + path.read_bytes()[60:])


def remove(*starts: int) -> Callable[[Path], None]:
    def act(root: Path) -> None:
        for start in starts:
            (root / "commitlog" / f"{start:020d}").unlink(missing_ok=True)

    return act


def rename_the_first(root: Path) -> None:
    if (path := root / "commitlog" / f"{0:020d}").exists():
        path.rename(path.with_name("kept"))


def found_in(root: Path, output: Path, env: Env) -> object:
    """What a recovery writes and tells."""
    report = recover(root, output, CONFIG, sync=False, env=env)
    told = [(Path(each.path).name, each.start, each.end, each.is_loss) for each in report.skipped]
    assert report.files == sum(path.is_file() for path in output.rglob("*"))
    return {path.name: path.read_bytes() for path in logs_of(output)}, told, report.lossy


@pytest.mark.parametrize(
    ("harm", "act"),
    [
        (rename_the_second, remove(0, 2 * FILE_SIZE)),
        (add_an_odd_name, remove(0, 5, FILE_SIZE)),
        (copy_the_second, remove(0, FILE_SIZE)),
        (copy_the_second_to_a_number, remove(0, FILE_SIZE)),
        (harm_a_beginning, remove(0)),
        (lambda root: None, rename_the_first),
    ],
)
def test_what_is_told_is_of_the_whole_log_or_of_the_rest(
    harm: Callable[[Path], None], act: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_again, "LOOKS_MAX", 3)

    def stored(name: str) -> Path:
        root = build(tmp_path / name, [*MESSAGES, message(0, topic=b"Old"), *map(message, range(40, 90))])
        harm(root)
        return root

    whole, still = stored("whole"), Retention(0, 1, lambda: None)
    before = found_in(whole, tmp_path / "whole-out", still)
    act(whole)
    after = found_in(whole, tmp_path / "rest-out", Env())
    met = set()
    for first in some(range(1, still.count + 1, 2), 6):
        root = stored(f"store-{first}")
        found = found_in(root, tmp_path / f"out-{first}", Retention(first, still.count, partial(act, root)))
        assert found in (before, after)
        met.add(found == after)
    assert met == {True, before == after}
