"""Rebuilds that are killed, refused or cut by a power failure at every operation: nothing is half
published, nothing is lost, and the next run is right."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from logdex.errors import StorageError
from logdex.io.env import Env
from logdex.jobs.journal import LOCK_NAME
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.rebuild.source import UncutLog
from logdex.testing import Fault, FaultEnv, Killed
from tests.crash.rocketmq.stores import CONFIG, NAMES, make_outputs
from tests.crash.trees import (
    EVERY,
    REFUSALS,
    Fresh,
    Outputs,
    check_outlives_power_cuts,
    chosen,
    count_harmed_without_sync,
    fingerprint,
    killed_at,
    operations,
    place,
    put_tree,
    refused_at,
    run_again,
    tree,
)
from tests.examples import takes_all

SEEDS = 1
"""Power cuts at each kill. What they take differs from kill to kill."""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    return make_outputs(tmp_path_factory.mktemp("outputs"), 30)


def run(outputs: Outputs, output: Path, env: Env, *, sync: bool = True) -> None:
    rebuild(str(outputs.source), str(output), CONFIG, env=env, sync=sync)


@EVERY
@pytest.mark.parametrize("had_old", [False, True], ids=["new output", "old output"])
def test_killed_at_operations(outputs: Outputs, fresh: Fresh, had_old: bool, every: int) -> None:
    store = fingerprint(outputs.source)
    for at in chosen(operations(run, outputs, fresh(), had_old=had_old), every):
        folder = fresh()
        output, env = killed_at(run, outputs, folder, at, had_old=had_old)
        for seed in range(SEEDS):
            left = folder.parent / f"left-{at}-{seed}"
            env.survivor(str(left), seed=at * SEEDS + seed)
            outputs.check(left / "new" / "out", had_old=had_old)
            run_again(run, outputs, left / "new" / "out")
            shutil.rmtree(left)
        outputs.check(output, had_old=had_old)
        run(outputs, output, Env(), sync=False)
        outputs.check(output, had_old=had_old)
        outputs.check_done(output)
    assert fingerprint(outputs.source) == store


@EVERY
def test_in_place_keeps_the_log_and_what_is_replaced(outputs: Outputs, fresh: Fresh, every: int) -> None:
    def start(folder: Path) -> Path:
        root = folder / "store"
        shutil.copytree(outputs.source, root)
        put_tree(outputs.old, root)
        return root

    folder = fresh()
    env, root = FaultEnv(str(folder)), start(folder)
    rebuild(str(root), str(root), CONFIG, in_place=True, env=env)
    for at in chosen(env.log, every):
        folder = fresh()
        root = start(folder)
        log = fingerprint(root / "commitlog")
        env = FaultEnv(str(folder), Fault(at))
        with pytest.raises(Killed):
            rebuild(str(root), str(root), CONFIG, in_place=True, env=env)
        env.release()
        left = folder / "left"
        env.survivor(str(left), seed=at)
        outputs.check(left / "store", had_old=True)
        assert tree(left / "store" / "commitlog") == tree(root / "commitlog")
        outputs.check(root, had_old=True)
        rebuild(str(root), str(root), CONFIG, in_place=True, sync=False)
        outputs.check(root, had_old=True)
        outputs.check_done(root)
        assert fingerprint(root / "commitlog") == log


@pytest.mark.parametrize("had_old", [False, True], ids=["new output", "old output"])
def test_what_a_rebuild_has_reported_outlives_a_power_cut(outputs: Outputs, fresh: Fresh, had_old: bool) -> None:
    check_outlives_power_cuts(run, outputs, fresh(), had_old=had_old, seeds=40)


def test_without_sync_a_power_cut_does_harm(outputs: Outputs, fresh: Fresh) -> None:
    """That the fault model bites: what the tests above find nowhere is found here."""
    assert count_harmed_without_sync(run, outputs, fresh(), seeds=40) > 5


def looks_for_a_cut(outputs: Outputs, folder: Path, *, had_old: bool) -> set[int]:
    """The operations by which a rebuild looks whether a broker has cut the log. A refused one does
    not end it."""
    env, looks = FaultEnv(str(folder)), set[int]()

    def noted(method: Callable[..., None]) -> Callable[..., None]:
        def call(*given: object) -> None:
            before = len(env.log)
            method(*given)
            looks.update(range(before + 1, len(env.log) + 1))

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("__init__", "__exit__"):
            patch.setattr(UncutLog, name, noted(getattr(UncutLog, name)))
        run(outputs, place(outputs, folder, had_old=had_old), env)
    assert looks
    return looks


@EVERY
@pytest.mark.parametrize("code", REFUSALS, ids=errno.errorcode.get)
def test_refused_once_at_operations(outputs: Outputs, fresh: Fresh, code: int, every: int) -> None:
    """The output is as it was, swept, with no file left open; or, where only the sweeping was
    refused, it is done. A sector that cannot be read once, where the names of the log's files are
    held against it, does not end a rebuild."""
    had_old = code != errno.EIO
    store = fingerprint(outputs.source)
    folder = fresh()
    clean = operations(run, outputs, folder, had_old=had_old)
    last_rename = max(number for number, (kind, _) in enumerate(clean) if kind == "rename")
    published = clean.index(("sync_dir", f"{folder}/new/out"), last_rename)
    looks = looks_for_a_cut(outputs, fresh(), had_old=had_old)
    for at in chosen(clean, every):
        folder = fresh()
        if at in looks or (code == errno.EIO and clean[at - 1][0] == "read_at"):
            output = place(outputs, folder, had_old=had_old)
            env = FaultEnv(str(folder), Fault(at, code))
            run(outputs, output, env)
            assert env.hits
            assert env.open_paths == []
            outputs.check_done(output)
            continue
        output = refused_at(run, outputs, folder, at, code, had_old=had_old)
        if at <= published + 1:
            names = sorted(path.name for path in output.iterdir()) if output.exists() else []
            if clean[at - 1][0] == "lock_file":
                names.remove(LOCK_NAME)  # who does not hold the lock must not remove it
            assert names == (sorted(NAMES) if had_old else []), clean[at - 1]
            assert not had_old or {name: tree(output / name) for name in NAMES} == outputs.old
        else:
            assert {name: tree(output / name) for name in NAMES} == outputs.right
        if at > published or at % 8 == 0:  # before that the output was shown to be as it was
            run_again(run, outputs, output)
    assert fingerprint(outputs.source) == store


@pytest.mark.parametrize(
    "kinds", [None, frozenset({"rename", "exchange", "remove", "remove_tree"})], ids=["all", "names"]
)
def test_refused_from_an_operation_on(outputs: Outputs, fresh: Fresh, kinds: frozenset[str] | None) -> None:
    """A disk that stays broken: cleaning up is refused too, and what was replaced is still
    there."""
    for at in count(1, 1 if kinds or takes_all() else 4):
        folder = fresh()
        output = place(outputs, folder, had_old=True)
        env = FaultEnv(str(folder), Fault(at, REFUSALS[at % len(REFUSALS)], kinds, lasting=True))
        with suppress(StorageError):
            run(outputs, output, env)
        if not env.hits:
            break
        assert env.open_paths == []
        outputs.check(output, had_old=True)
        run(outputs, output, Env(), sync=False)
        outputs.check(output, had_old=True)
        outputs.check_done(output)
    assert at > 5


def test_after_a_refusal_while_publishing_and_while_undoing_it_the_next_run_undoes_it(
    outputs: Outputs, fresh: Fresh
) -> None:
    folder = fresh()
    output = place(outputs, folder, had_old=True)
    env = FaultEnv(str(folder), Fault(2, errno.EIO, frozenset({"rename", "exchange"}), lasting=True))
    with pytest.raises(StorageError, match="the next run there undoes it"):
        run(outputs, output, env)
    run_again(run, outputs, output)
    assert {tuple(tree(path)) for path in output.glob("index.*")} == {tuple(outputs.old["index"])}
