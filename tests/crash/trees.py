"""Directories compared as a whole: what a test may find in an output, before and after a crash."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from logdex.errors import LogdexError, StorageError
from logdex.io.env import Env
from logdex.io.name_changes import STAGING_PREFIX
from logdex.testing import Fault, FaultEnv, Killed

REFUSALS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EROFS, errno.EACCES)

Tree = dict[str, bytes | None]
"""Path → contents; None for a directory."""

Fresh = Callable[[], Path]
"""Gives an empty directory, removed when the next one is asked for."""


def tree(root: Path) -> Tree:
    return {str(path.relative_to(root)): None if path.is_dir() else path.read_bytes() for path in root.rglob("*")}


def fingerprint(root: Path) -> dict[str, tuple[int, bytes]]:
    """Contents and modification times of all that is there."""
    return {
        str(path.relative_to(root)): (path.stat().st_mtime_ns, b"" if path.is_dir() else path.read_bytes())
        for path in [root, *root.rglob("*")]
    }


@dataclass(frozen=True)
class Outputs:
    """What a rebuild of `source` writes, and what one of a shorter log wrote before, by name."""

    source: Path
    right: dict[str, Tree]
    old: dict[str, Tree]

    def check(self, output: Path, *, had_old: bool) -> None:
        """Each name is nothing, the old whole or the new whole; the old is there, under its own
        name, a dated one, or in the staging folder for the moment between two names."""
        for name in self.right:
            whole = [self.right[name], *([self.old[name]] if had_old else [])]
            found = [tree(path) for path in output.glob(f"{name}*")]
            assert all(each in whole for each in found), name
            staged = [tree(path) for path in output.glob(f"{STAGING_PREFIX}*/{name}")]
            assert not had_old or self.old[name] in [*found, *staged], name

    def check_done(self, output: Path) -> None:
        """The new is there, and no staging folder, no lock."""
        assert {name: tree(output / name) for name in self.right} == self.right
        assert [path.name for path in output.iterdir() if path.name.startswith(".")] == []


def put_tree(contents: dict[str, Tree], output: Path) -> None:
    for name, files in contents.items():
        (output / name).mkdir(parents=True, exist_ok=True)
        for path, data in sorted(files.items()):
            if data is None:
                (output / name / path).mkdir()
            else:
                (output / name / path).write_bytes(data)


class Run(Protocol):
    """A rebuild of the outputs' source into a directory."""

    def __call__(self, outputs: Outputs, output: Path, env: Env, *, sync: bool = True) -> None: ...


NAME_CHANGES = ("rename", "link", "exchange", "remove", "remove_tree", "lock_file")
EVERY = pytest.mark.parametrize("every", [20, pytest.param(1, marks=pytest.mark.slow)])
"""How many of a run's operations are harmed: in `scripts/test --all` each."""


def chosen(log: list[tuple[str, str]], every: int) -> list[int]:
    """Numbers of the operations to harm: all that change names, and so many of the others."""
    names = {at for at, (kind, _) in enumerate(log, 1) if kind in NAME_CHANGES}
    return [at for at in range(1, len(log) + 1) if at % every == 0 or at in names]


def place(outputs: Outputs, folder: Path, *, had_old: bool) -> Path:
    """Where a rebuild writes to: nothing there yet, nor its parent; or an old output."""
    output = folder / "new" / "out"
    if had_old:
        put_tree(outputs.old, output)
    return output


def operations(run: Run, outputs: Outputs, folder: Path, *, had_old: bool) -> list[tuple[str, str]]:
    """The operations of a run that nothing befalls."""
    env, output = FaultEnv(str(folder)), place(outputs, folder, had_old=had_old)
    run(outputs, output, env)
    outputs.check_done(output)
    assert env.open_paths == []
    return env.log


def killed_at(run: Run, outputs: Outputs, folder: Path, at: int, *, had_old: bool) -> tuple[Path, FaultEnv]:
    """A run that was killed at its operation `at`: the output, and the system that the power may
    now be cut of."""
    output = place(outputs, folder, had_old=had_old)
    env = FaultEnv(str(folder), Fault(at))
    with pytest.raises(Killed):
        run(outputs, output, env)
    env.release()
    return output, env


def refused_at(run: Run, outputs: Outputs, folder: Path, at: int, code: int, *, had_old: bool) -> Path:
    """The output of a run whose operation `at` was refused: the error says with what, and no file
    is left open."""
    output = place(outputs, folder, had_old=had_old)
    env = FaultEnv(str(folder), Fault(at, code))
    with pytest.raises(LogdexError) as raised:
        run(outputs, output, env)
    assert isinstance(raised.value, StorageError), env.log[at - 1]
    assert raised.value.errno == code
    assert env.open_paths == []
    return output


def run_again(run: Run, outputs: Outputs, output: Path) -> None:
    """The next run is right."""
    run(outputs, output, Env(), sync=False)
    outputs.check_done(output)


def check_outlives_power_cuts(run: Run, outputs: Outputs, folder: Path, *, had_old: bool, seeds: int) -> None:
    """What a rebuild has reported is there after any power cut."""
    output = place(outputs, folder, had_old=had_old)
    env = FaultEnv(str(folder))  # what is there already is on disk
    run(outputs, output, env)
    for seed in range(seeds):
        left = folder / f"left-{seed}"
        env.survivor(str(left), seed)
        outputs.check(left / "new" / "out", had_old=had_old)
        assert {name: tree(left / "new" / "out" / name) for name in outputs.right} == outputs.right


def count_harmed_without_sync(run: Run, outputs: Outputs, folder: Path, *, seeds: int) -> int:
    """After how many power cuts of `seeds` the output is not what it may be, where nothing was
    synced."""
    env = FaultEnv(str(folder))
    run(outputs, place(outputs, folder, had_old=True), env, sync=False)
    harmed = 0
    for seed in range(seeds):
        env.survivor(str(folder / f"left-{seed}"), seed)
        try:
            outputs.check(folder / f"left-{seed}" / "new" / "out", had_old=True)
        except AssertionError:
            harmed += 1
    return harmed
