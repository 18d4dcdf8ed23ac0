"""Cut and flipped files through the command line: an exit code, a clear line, nothing written, no
hang.

Every file of a small store is cut at many places, and bytes all over it are flipped, seeded; each
harm goes through one of the commands. `test_every_harm` sends cuts of every file and thousands of
flips through all of them.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harm import flipped, harmed
from tests.cli.helpers import run
from tests.cli.rocketmq.harm import COMMANDS, Store, check, flips, unpack
from tests.examples import some

STORES = ["tiny-broker", "tiny-4.9.7"]
CUTS_PER_FILE = 6


@pytest.fixture(scope="module", params=STORES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return unpack(request.param, tmp_path_factory.mktemp("harmed"))


def cuts(size: int) -> list[int]:
    return sorted(
        {0, 1, size - 1, *(size * part // CUTS_PER_FILE for part in range(1, CUTS_PER_FILE))} & set(range(size))
    )


def test_cut_files(store: Store) -> None:
    turn = itertools.cycle(COMMANDS)
    for number, path in enumerate(store.files):
        data = path.read_bytes()
        for size in some(cuts(len(data)), 11, first=number):
            with harmed(path, data[:size]):
                check(store, next(turn), f"{store.name(path)} cut to {size} bytes")


def test_cut_log(store: Store) -> None:
    """The log's first file, cut within and between its first messages, through every command."""
    path = next(path for path in store.files if path.parent.name == "commitlog")
    data = path.read_bytes()
    for size in (*range(0, 260, 23), 700, len(data) // 2):
        with harmed(path, data[:size]):
            for command in some(COMMANDS, 3, first=size):
                check(store, command, f"the log cut to {size} bytes")


def test_missing_files(store: Store) -> None:
    for number, path in enumerate(store.files):
        with harmed(path, None):
            for command in some(COMMANDS, 4, first=number):
                check(store, command, f"{store.name(path)} removed")


@pytest.mark.usefixtures("bounded_memory")
def test_flips(store: Store) -> None:
    chosen = some(list(flips(store, 200, seed=1)), 11)
    for command, (path, at, mask) in zip(itertools.cycle(COMMANDS), chosen, strict=False):
        with harmed(path, flipped(path, at, mask)):
            check(store, command, f"{store.name(path)} byte {at} ^ {mask:#x}")


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`refuse(name)`: opening a file whose path ends so is refused. Modes do not keep root from
    reading."""
    open_file = os.open

    def refuse_name(name: str) -> None:
        def refusing(path: str, flags: int, *more: Any, **named: Any) -> int:
            if str(path).endswith(name):
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return open_file(path, flags, *more, **named)

        monkeypatch.setattr("logdex.io.env.os.open", refusing)

    return refuse_name


@pytest.mark.parametrize("command", ["info", "cat", "verify", "rebuild"])
def test_an_unreadable_file_is_one_clear_line(
    command: str, golden_copy: Any, tmp_path: Path, refuse: Callable[[str], None]
) -> None:
    store = golden_copy("tiny-crash")
    refuse(f"commitlog/{0:020d}")
    more = ["--output", tmp_path / "out"] if command == "rebuild" else []
    result = run(command, store, *more)
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert f"commitlog/{0:020d}: permission denied" in lines[0]
    assert lines[1:] == ["        check the owner and the mode of the file"]


def test_info_names_an_unreadable_file_once_and_shows_the_rest(golden_copy: Any, refuse: Callable[[str], None]) -> None:
    store, name = golden_copy("tiny-5.5.0"), f"commitlog/{32768:020d}"
    whole = run("info", store).stdout
    refuse(name)
    result = run("info", store)
    assert (result.exit_code, result.stderr) == (1, f"logdex: {store}/{name}: permission denied\n")
    assert len(result.stdout.splitlines()) == len(whole.splitlines())


def test_a_missing_middle_file(golden_copy: Any, tmp_path: Path) -> None:
    store, name = golden_copy("tiny-5.5.0"), f"{32768:020d}"
    (store / "commitlog" / name).unlink()
    cat, verify = run("cat", store), run("verify", store)
    rebuild = run("rebuild", store, "-o", tmp_path / "out")
    assert (cat.exit_code, verify.exit_code, rebuild.exit_code) == (1, 1, 3)
    assert f"the file {name} is missing" in cat.stderr
    assert name in verify.stdout
    assert name in rebuild.stderr
