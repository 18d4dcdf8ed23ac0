"""Exports killed and refused at every operation: the next run gives what an undisturbed one
does."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest

from logdex.convert.export import export
from logdex.convert.export.report import ExportReport
from logdex.convert.sources.rocketmq import StoreSource
from logdex.errors import LogdexError
from logdex.io.env import Env
from logdex.testing import CHANGES, Fault, FaultEnv, Killed
from logdex.testing.store_builder import write_commit_log
from tests.crash.trees import EVERY, Fresh, Tree, chosen, tree
from tests.unit.convert.export.test_job import SETTINGS, messages
from tests.unit.rocketmq.small_stores import FILE_SIZE


def source(root: Path, count: int) -> StoreSource:
    """A store of so many messages, three of which are of one day."""
    write_commit_log(str(root), messages(count)[::2], FILE_SIZE)
    return StoreSource(str(root), settings=SETTINGS)


def run(root: Path, output: Path, env: Env, *, sync: bool = True) -> ExportReport:
    return export(source(root, 7), str(output), table_format="delta", env=env, sync=sync)


def places(log: list[tuple[str, str]], every: int) -> Sequence[int]:
    """The operations to harm: the default run takes a few of them."""
    return chosen(log, every) if every == 1 else chosen(log, 9)[:: max(len(chosen(log, 9)) // 4, 1)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exported") / "store"


@pytest.fixture(params=[False, True], ids=["first run", "second run"])
def had_some(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def begin(root: Path, output: Path, *, had_some: bool) -> Tree:
    if had_some:
        export(source(root.parent / "shorter", 3), str(output), sync=False)
    return tree(output) if output.exists() else {}


def done(root: Path, folder: Path, *, had_some: bool) -> Tree:
    begin(root, folder / "out", had_some=had_some)
    run(root, folder / "out", Env(), sync=False)
    return tree(folder / "out")


@EVERY
def test_killed_at_operations(root: Path, fresh: Fresh, had_some: bool, every: int) -> None:
    right = done(root, fresh(), had_some=had_some)
    folder = fresh()
    begin(root, folder / "out", had_some=had_some)
    counting = FaultEnv(str(folder))
    run(root, folder / "out", counting)
    assert tree(folder / "out") == right
    for at in places(counting.log, every):
        folder = fresh()
        begin(root, folder / "out", had_some=had_some)
        env = FaultEnv(str(folder), Fault(at))
        with pytest.raises(Killed):
            run(root, folder / "out", env)
        env.release()
        left = folder / "left"
        env.survivor(str(left), seed=at)
        for output in (folder / "out", left / "out"):
            run(root, output, Env(), sync=False)
            assert tree(output) == right, at


@EVERY
def test_refused_at_operations(root: Path, fresh: Fresh, had_some: bool, every: int) -> None:
    right = done(root, fresh(), had_some=had_some)
    folder = fresh()
    begin(root, folder / "out", had_some=had_some)
    counting = FaultEnv(str(folder))
    run(root, folder / "out", counting)
    for at in places(counting.log, every):
        folder = fresh()
        begin(root, folder / "out", had_some=had_some)
        env = FaultEnv(str(folder), Fault(at, errno.ENOSPC))
        try:
            report = run(root, folder / "out", env)
        except LogdexError:
            pass
        else:
            assert report.lossy or tree(folder / "out") == right, "a file of the log that cannot be read is a loss"
            assert counting.log[at - 1][0] not in CHANGES, "only what is looked at twice may be refused"
        assert env.open_paths == []
        run(root, folder / "out", Env(), sync=False)
        assert tree(folder / "out") == right, at
