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
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.testing import Fault, FaultEnv, Killed
from logdex.testing.store_builder import write_commit_log
from tests.small_stores import FILE_SIZE, message

CONFIG = StoreConfig(
    mapped_file_size_commit_log=FILE_SIZE,
    mapped_file_size_consume_queue=20 * 8,
    max_hash_slot_num=7,
    max_index_num=60,
    dialect=Dialect.of("5.5.0"),
)
NAMES = ("consumequeue", "index")

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


def write_log(root: Path, count: int = 40, config: StoreConfig = CONFIG) -> Path:
    """A store that is a CommitLog alone: two topics, three queues."""
    queues = ((b"TopicA", 0), (b"TopicA", 1), (b"TopicB", 0))
    messages = [
        message(number // 3, keys=f"k-{number}", tag="AB"[number % 2], topic=topic, queue_id=queue_id)
        for number in range(count)
        for topic, queue_id in [queues[number % 3]]
    ]
    write_commit_log(str(root), messages, config.mapped_file_size_commit_log)
    return root


@dataclass(frozen=True)
class Outputs:
    """What a rebuild of `source` writes, and what one of a shorter log wrote before, by name."""

    source: Path
    right: dict[str, Tree]
    old: dict[str, Tree]

    def check(self, output: Path, *, had_old: bool) -> None:
        """Each name is nothing, the old whole or the new whole; the old is there, under its own or a dated name."""
        for name in self.right:
            whole = [self.right[name], *([self.old[name]] if had_old else [])]
            found = [tree(path) for path in output.glob(f"{name}*")]
            assert all(each in whole for each in found), name
            assert not had_old or self.old[name] in found, name

    def check_done(self, output: Path) -> None:
        """The new is there, and no staging folder, no lock."""
        assert {name: tree(output / name) for name in self.right} == self.right
        assert [path.name for path in output.iterdir() if path.name.startswith(".")] == []


def make_outputs(folder: Path, count: int = 40, config: StoreConfig = CONFIG) -> Outputs:
    """A store below `folder`, with what belongs to it; the old output is that of a shorter log."""
    trees = []
    for name, messages in (("old", count // 3), ("store", count)):
        root = write_log(folder / name, messages, config)
        rebuild(str(root), str(folder / f"{name}-out"), config, sync=False)
        trees.append({part: tree(folder / f"{name}-out" / part) for part in NAMES})
    return Outputs(folder / "store", trees[1], trees[0])


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
    """A run that was killed at its operation `at`: the output, and the system that the power may now be cut of."""
    output = place(outputs, folder, had_old=had_old)
    env = FaultEnv(str(folder), Fault(at))
    with pytest.raises(Killed):
        run(outputs, output, env)
    env.release()
    return output, env


def refused_at(run: Run, outputs: Outputs, folder: Path, at: int, code: int, *, had_old: bool) -> Path:
    """The output of a run whose operation `at` was refused: the error says with what, and no file is left open."""
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
    """After how many power cuts of `seeds` the output is not what it may be, where nothing was synced."""
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
