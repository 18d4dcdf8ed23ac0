"""A `MessageStore` after kills, power cuts and errors of the system at any call: what was
acknowledged is there, and nothing else."""

from __future__ import annotations

import errno
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import LogdexError
from logdex.testing import CHANGES, Fault, FaultEnv, Killed
from tests.crash.rocketmq.store_runs import (
    DELAYS,
    FIRST_ACTIONS,
    WITH_RETENTION,
    Actions,
    Model,
    Run,
    check_left,
    check_log,
    open_store,
    sizes_of,
)

SEEDS, SEEDS_SLOW, PARTS = 200, 2016, 4
STEPS_MAX, STEPS_MAX_SLOW = 12, 60
ERRNOS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EROFS)


def run_until_stopped(
    env: FaultEnv,
    place: Path,
    sizes: dict[str, Any],
    model: Model,
    chance: random.Random,
    actions: Actions,
    steps_max: int = STEPS_MAX_SLOW,
) -> None:
    """Opens, works and perhaps closes the store, until the process is killed, the system refuses,
    or it has done enough."""
    flush = chance.choice(("sync", "sync", "async"))
    try:
        store = open_store(place, sizes, chance, env, flush)
        check_log(place, sizes, model)
        run = Run(store, model, chance, is_sync=flush == "sync", actions=actions)
        for _ in range(chance.randrange(steps_max)):
            run.step()
        if chance.random() < 0.5:
            store.close()
            model.kept = len(model.puts)
    except (LogdexError, Killed):
        pass


def a_fault(chance: random.Random) -> Fault | None:
    if chance.random() < 0.15:
        return None
    kinds = chance.choice((None, CHANGES, frozenset({"sync", "sync_dir"}), frozenset({"rename", "remove", "sync_dir"})))
    code = None if chance.random() < 0.7 else chance.choice(ERRNOS)
    return Fault(chance.randrange(1, 400 if kinds is None else 120), errno=code, kinds=kinds)


def cut(folder: Path, seed: int, actions: Actions = WITH_RETENTION, steps_max: int = STEPS_MAX_SLOW) -> None:
    """One to three power cuts of one store, each after one or more processes, of less than
    `steps_max` actions each."""
    chance = random.Random(seed)
    sizes, model, place = sizes_of(chance), Model(), folder / "0"
    place.mkdir(parents=True)
    for number in range(1, chance.choice((1, 1, 2, 3)) + 1):
        env = FaultEnv(str(place), a_fault(chance))
        run_until_stopped(env, place / "store", sizes, model, chance, actions, steps_max)
        while chance.random() < 0.3:
            env.restart(a_fault(chance))
            run_until_stopped(env, place / "store", sizes, model, chance, actions, steps_max)
        env.release()
        place = folder / str(number)
        env.survivor(str(place), seed)
        if chance.random() < 0.5:
            check_left(place / "store", sizes, model, chance)
    check_left(place / "store", sizes, model, chance)


def cut_all(folder: Path, seeds: range, steps_max: int) -> None:
    for seed in seeds:
        try:
            cut(folder / str(seed), seed, steps_max=steps_max)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("part", range(PARTS))
def test_power_cuts(tmp_path: Path, part: int) -> None:
    """Short runs, for the sake of time: the long ones are slow."""
    cut_all(tmp_path, range(part, SEEDS, PARTS), STEPS_MAX)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("part", range(PARTS))
def test_many_power_cuts(tmp_path: Path, part: int) -> None:
    cut_all(tmp_path, range(part, SEEDS_SLOW, PARTS), STEPS_MAX_SLOW)


@pytest.mark.parametrize("seed", [439, 576, 1398, 3154, 3436, 4332])
def test_cuts_that_once_lost_something(tmp_path: Path, seed: int) -> None:
    """Names that a killed process left unsynced, a torn message in a file of an odd size, names of
    queues that were cut, a renamed topics.json, a file that was cut off and not yet extended
    again."""
    cut(tmp_path / str(seed), seed, FIRST_ACTIONS)


def test_files_made_ahead_may_come_back(tmp_path: Path) -> None:
    """A broker makes two files ahead. A power cut after their removal leaves none, the first, or
    both."""
    sizes, model = sizes_of(random.Random(0)), Model()
    root, size = tmp_path / "0" / "store", sizes["mapped_file_size_commit_log"]
    with open_store(root, sizes, random.Random(0), FaultEnv(str(tmp_path)), "sync") as store:
        run = Run(store, model, random.Random(0), is_sync=True)
        for _ in range(5):
            run.put()
        end = store.max_phy_offset // size * size
    for number in (1, 2):
        (root / "commitlog" / f"{end + number * size:020d}").write_bytes(bytes(size))
    (root / "abort").touch()
    for at in range(4, 9):
        env = FaultEnv(str(tmp_path / "0"), Fault(at, kinds=frozenset({"remove", "sync_dir"})))
        shutil.copytree(root, tmp_path / "kept")
        with suppress(Killed):
            open_store(root, sizes, random.Random(0), env, "sync").close()
        env.release()
        for seed in range(6):
            env.survivor(str(tmp_path / f"{at}-{seed}"), seed)
            check_left(
                tmp_path / f"{at}-{seed}" / "store", sizes, Model(list(model.puts), model.kept), random.Random(0)
            )
        shutil.rmtree(root)
        (tmp_path / "kept").rename(root)


@pytest.mark.parametrize(
    "seeds", [range(4), pytest.param(range(4, 400), marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
def test_delayed_messages_are_delivered_at_least_once(tmp_path: Path, seeds: range) -> None:
    for seed in seeds:
        cut(tmp_path / str(seed), seed, DELAYS)
