"""A rebuild or a recovery in place that was killed while it published, and then another command."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.errors import UnfinishedPublicationWarning
from logdex.formats import detect, format_of
from logdex.io.env import Env
from logdex.kafka import LogDirSnapshot, LogFollower, PartitionSnapshot
from logdex.kafka.snapshot.log_dir_snapshot import open_kafka
from logdex.testing import Fault, FaultEnv, Killed
from tests.cli.helpers import run
from tests.crash.kafka.publications import harm_indexes, harm_logs, write_log_dir
from tests.crash.publications import PUBLISHING, OldDiskEnv, type_the_mend, undated
from tests.crash.trees import tree
from tests.examples import cases

COMMANDS: dict[str, tuple[str, dict[str, Any]]] = {
    "rebuild": ("", {}),
    "rebuild of a partition": ("events-1", {}),
    "rebuild with key indexes": ("", {"key_index": True}),
    "rebuild with another interval": ("", {"index_interval_bytes": 100}),
    "recover": ("", {}),
    "recover of a partition": ("events-1", {}),
    "recover with another interval": ("", {"index_interval_bytes": 100}),
}
"""By name, where in the log directory the command runs, and its settings."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory with damaged logs, and with indexes that are wrong, missing or stale."""
    return harm_indexes(harm_logs(write_log_dir(tmp_path_factory.mktemp("source") / "some logs")))


def start(source: Path, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(source, folder / "some logs"))


def in_place(name: str, root: Path, env: Env) -> None:
    below, settings = COMMANDS[name]
    found = detect(str(root / below))
    job: Callable[..., Any] = getattr(format_of(found), name.split()[0])
    job(found, settings, None, in_place=True, env=env).run(None)


def kills(name: str, source: Path, folder: Path, env_of: type[FaultEnv]) -> list[int]:
    """The changes of the disk from the journal on, but for the end, when all is done."""
    root = start(source, folder)
    env = env_of(str(folder))
    in_place(name, root, env)
    begin = max(at for at, (kind, path) in enumerate(env.log, 1) if kind == "sync" and path.endswith(".logdex-lock"))
    return [at for at, (kind, _) in enumerate(env.log, 1) if kind in PUBLISHING and at > begin][:-1]


def killed(name: str, at: int, source: Path, folder: Path, env_of: type[FaultEnv] = FaultEnv) -> Path:
    root = start(source, folder)
    env = env_of(str(folder), Fault(at))
    with pytest.raises(Killed):
        in_place(name, root, env)
    env.release()
    return root


def killed_half_way(name: str, source: Path, folder: Path) -> Path:
    places = kills(name, source, folder, FaultEnv)
    return killed(name, places[len(places) // 2], source, folder)


FIRST = ["recover", "recover of a partition", "rebuild", "rebuild of a partition"]


@pytest.mark.parametrize(
    ("seconds", "step"),
    [([*COMMANDS][::3], 1000), pytest.param([*COMMANDS], 20, marks=pytest.mark.slow)],
    ids=["some", "each"],
)
@pytest.mark.parametrize(("env_of", "first"), cases(itertools.product([FaultEnv, OldDiskEnv], FIRST), 2))
def test_another_command_does_what_it_does_without_the_kill(
    source: Path, tmp_path: Path, first: str, env_of: type[FaultEnv], seconds: list[str], step: int
) -> None:
    """Each of the `seconds` runs after kills that are `step` changes of the disk apart."""
    places = kills(first, source, tmp_path / "work", env_of)
    step = min(step, len(places))
    for number, second in enumerate(seconds):
        root = start(source, tmp_path / "work")
        in_place(second, root, Env())
        right = undated(tree(root))
        for at in places[number * step // len(seconds) :: step]:
            root = killed(first, at, source, tmp_path / "work", env_of)
            in_place(second, root, env_of(str(tmp_path / "work")))
            assert undated(tree(root)) == right, (at, second)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_mend_has_the_flags_of_the_killed_run(source: Path, tmp_path: Path, name: str) -> None:
    """It is typed as it is printed, in a shell, for a path with a blank in it."""
    below, _ = COMMANDS[name]
    root = start(source, tmp_path / "work")
    in_place(name, root, Env())
    right = undated(tree(root))
    root = killed_half_way(name, source, tmp_path / "work")
    type_the_mend(root / below)
    assert undated(tree(root)) == right


ELSEWHERE = ["rebuild", "recover", "dispatch", "export", "convert --to rocketmq", "filter"]


@pytest.mark.parametrize("command", [*ELSEWHERE, "stats"])
@pytest.mark.parametrize("env_of", [FaultEnv, OldDiskEnv], ids=["half", "missing"])
def test_nothing_is_made_of_a_log_that_will_be_undone(
    source: Path, tmp_path: Path, command: str, env_of: type[FaultEnv]
) -> None:
    """The recovery had published a .log, or set it aside, and had told nobody yet what is lost."""
    root = start(source, tmp_path / "work")
    env = env_of(str(tmp_path / "work"))
    in_place("recover of a partition", root, env)
    at = next(at for at, (kind, path) in enumerate(env.log, 1) if kind == "rename" and path.endswith("0.log"))
    root = killed("recover of a partition", at + 1, source, tmp_path / "work", env_of)
    before = tree(root)
    output = () if command == "stats" else ("-o", tmp_path / "out")
    for path in (root, root / "events-1", min((root / "events-1").glob("*.log"))):
        if command == "dispatch" and path.suffix == ".log":
            continue
        told = run(*command.split(), path, *output)
        assert told.exit_code == 2, (path, told)
        mend = f"run it again, which first undoes that: logdex recover '{root}/events-1' --in-place"
        assert told.stderr.count(mend) == 1, path
        assert [*(tmp_path / "out").rglob("*")] == []
    assert run(*command.split(), root / "orders-0", *output).exit_code in (0, 1, 3)
    assert tree(root) == before


@pytest.mark.parametrize("command", ["rebuild", "recover", "dispatch", "export", "stats"])
def test_commands_that_read_logs_tell_of_half_published_indexes(source: Path, tmp_path: Path, command: str) -> None:
    root = killed_half_way("rebuild", source, tmp_path / "work")
    done = run(command, root, *(() if command == "stats" else ("-o", tmp_path / "out")))
    assert done.exit_code == (1 if command == "stats" else 3)
    assert "run it again, which first undoes that: logdex rebuild" in done.stderr
    assert "Warning" not in done.stderr


@pytest.mark.parametrize(
    ("open_it", "below"),
    [
        (logdex.open, ""),
        (logdex.open, "events-1"),
        (logdex.open_log_dir, ""),
        (logdex.open_partition, "events-1"),
        (LogDirSnapshot, ""),
        (PartitionSnapshot, "events-1"),
        (open_kafka, ""),
        (LogFollower, "events-1"),
    ],
)
def test_who_opens_it_is_warned(source: Path, tmp_path: Path, open_it: Callable[[Path], Any], below: str) -> None:
    root = killed_half_way("recover of a partition", source, tmp_path / "work")
    with pytest.warns(UnfinishedPublicationWarning, match=r"run it again, .*: logdex recover '") as told:
        open_it(root / below).close()
    assert len(told) == 1
    if below:
        open_it(root / "events-0").close()
