"""`cat --follow` beside a broker that recovers and cuts the log, which grows again, or removes its
oldest files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from logdex.io.env import DEFAULT_ENV
from logdex.jobs import look_again
from tests.beside import At
from tests.cli.helpers import Ended, run
from tests.examples import some
from tests.unit.rocketmq.small_stores import FILE_SIZE, build, message

KEPT, CUT = 20, 12
"""How many messages the cut leaves, and how many it takes."""
LOOKS = 9


def new(count: int, size: int) -> list[str]:
    return [f"new-{number}".ljust(size, "+") for number in range(KEPT, KEPT + count)]


GROWN = {
    "nothing": new(0, 0),
    "less than before": new(3, 30),
    "more than before": new(15, 30),
    "the same sizes": new(CUT + 5, 7),
}
"""What the log has in place of the messages that were cut."""


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("cut")
    old = [f"old-{number:03}" for number in range(KEPT + CUT)]
    for name, bodies in {"before": old, **{name: old[:KEPT] + grown for name, grown in GROWN.items()}}.items():
        messages = [
            message(number, body=body.encode(), topic=b"TU"[number % 2 :][:1], tag=body[:3])
            for number, body in enumerate(bodies)
        ]
        build(work / name, messages)
    return work


def cut(root: Path, after: Path) -> None:
    """Changes a store in place until it has the files of another one."""
    for path in sorted((path for path in root.rglob("*") if path.is_file()), reverse=True):
        if not (after / path.relative_to(root)).exists():
            path.unlink()
    for path in sorted(path for path in after.rglob("*") if path.is_file()):
        target = root / path.relative_to(after)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("r+b" if target.exists() else "xb") as file:
            file.write(path.read_bytes())


def followed(root: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], *flags: object) -> Ended:
    """Follows a store. `act` is called at the first wait; then the command is stopped."""
    waits = iter([act, *[lambda: None] * LOOKS])

    def pause(_: float = 1.0) -> None:
        next(waits, stop)()

    def stop() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(look_again, "pause", pause)
    return run("cat", root, "--follow", "--format", "%s ", "--mapped-file-size-commit-log", FILE_SIZE, *flags)


@pytest.mark.parametrize("grown", GROWN)
@pytest.mark.parametrize("flags", [(), ("--tail", KEPT), ("--tail", 1), ("--topic", "U"), ("--where", "tags == 'new'")])
def test_what_is_new_is_printed_once(
    grown: str, flags: tuple[object, ...], stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(shutil.copytree(stores / "before", tmp_path / "store"))
    done = followed(root, monkeypatch, partial(cut, root, stores / grown), *flags)
    assert done.exit_code == 130, done
    assert done.stderr.count("the log was cut from offset") == 1
    found = [body for body in done.stdout.split() if body.startswith("new")]
    assert found == [body for number, body in enumerate(GROWN[grown]) if "U" not in flags or number % 2]
    old = [body for body in done.stdout.split() if body.startswith("old")]
    assert len(old) == len(set(old)) or flags == ("--tail", 1)


def test_a_cut_before_the_offset_to_begin_at(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(shutil.copytree(stores / "before", tmp_path / "store"))
    begin = int(run("cat", root, "--tail", 1, "--format", "%a ").stdout.split()[0])
    act = partial(cut, root, stores / "more than before")
    done = followed(root, monkeypatch, act, "--physical-offset", begin, "--format", "%a ")
    assert done.exit_code == 130, done
    places = run("cat", root, "--format", "%a ").stdout.split()
    first, second, *new = done.stdout.split()
    assert (int(first), [first, second]) == (begin, sorted([first, second]))
    assert new == [place for place in places if int(place) >= begin]


def test_files_that_are_removed_are_no_cut(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(shutil.copytree(stores / "before", tmp_path / "store"))

    def remove() -> None:
        for path in sorted((root / "commitlog").iterdir())[:-1]:
            path.unlink()

    done = followed(root, monkeypatch, remove)
    assert (done.exit_code, done.stderr) == (130, "")
    assert len(done.stdout.split()) == KEPT + CUT


@pytest.mark.parametrize("flags", [(), ("--topic", "U")])
def test_a_cut_before_any_operation(
    flags: tuple[object, ...], stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [body for number, body in enumerate(GROWN["more than before"]) if not flags or number % 2]
    for number in some(range(1, 240), 7):
        root = Path(shutil.copytree(stores / "before", tmp_path / str(number)))
        env = At(number, partial(cut, root, stores / "more than before"))
        monkeypatch.setattr(DEFAULT_ENV, "operation", env.operation)
        done = followed(root, monkeypatch, lambda: None, *flags)
        assert (done.exit_code, env.left < 0) == (130, True), done
        assert sorted({body for body in done.stdout.split() if body.startswith("new")}) == wanted, number
        shutil.rmtree(root)
