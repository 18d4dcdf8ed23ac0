"""A store whose settings change from opening to opening, with kills and power cuts between: what
was acknowledged is there, in its queue and in the index."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from logdex.testing import FaultEnv
from tests.crash.rocketmq.commits import Commits
from tests.crash.rocketmq.store_runs import FIRST_ACTIONS, WITH_RETENTION, Model, check_left, sizes_of
from tests.crash.rocketmq.test_store_power_cuts import a_fault, run_until_stopped
from tests.examples import every

SEEDS, SEEDS_SLOW, PARTS = 4, 1004, 4
VERSIONS = ("4.9.7", "5.3.3", "5.5.0")


def changed(sizes: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """The settings of the next opening: the broker was upgraded, or its delay levels are others."""
    at = VERSIONS.index(sizes["rocketmq_version"])
    levels = chance.choice((None, "1s 2s 3s", "5s 1m 1h"))
    return sizes | {"rocketmq_version": chance.choice(VERSIONS[at:]), "message_delay_level": levels}


def removed(store: Path, sizes: dict[str, Any], model: Model, chance: random.Random) -> dict[str, Any]:
    """The settings after an operator removed derived files, so that files of other sizes are made.
    Queues whose messages have expired begin anew then, so the offsets of groups are removed,
    too."""
    anew = sizes_of(chance)
    for name, settings in (
        ("index", ("max_hash_slot_num", "max_index_num")),
        ("consumequeue", ("mapped_file_size_consume_queue",)),
    ):
        if chance.random() < 0.2 and store.exists():
            shutil.rmtree(store / name, ignore_errors=True)
            if name == "consumequeue" and model.expired:
                for path in (store / "config").glob("consumerOffset.json*"):
                    path.unlink()
                model.commits = Commits()
            sizes = sizes | {setting: anew[setting] for setting in settings}
    return sizes


def live(folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    sizes, model, place = sizes_of(chance), Model(), folder / "0"
    actions = chance.choice((FIRST_ACTIONS, WITH_RETENTION))
    place.mkdir(parents=True)
    for number in range(1, chance.randint(2, 4)):
        env = FaultEnv(str(place), a_fault(chance))
        run_until_stopped(env, place / "store", sizes, model, chance, actions)
        sizes = changed(sizes, chance)
        while chance.random() < 0.5:
            env.restart(a_fault(chance))
            run_until_stopped(env, place / "store", sizes, model, chance, actions)
            sizes = changed(sizes, chance)
        env.release()
        place = folder / str(number)
        env.survivor(str(place), seed)
        sizes = removed(place / "store", sizes, model, chance)
        if chance.random() < 0.5:
            check_left(place / "store", sizes, model, chance)
            sizes = changed(sizes, chance)
    check_left(place / "store", sizes, model, chance)


def live_all(folder: Path, seeds: range) -> None:
    for seed in seeds:
        try:
            live(folder / str(seed), seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("part", range(PARTS))
def test_histories_of_settings(tmp_path: Path, part: int) -> None:
    live_all(tmp_path, range(part, SEEDS, PARTS))


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("part", range(PARTS))
def test_many_histories_of_settings(tmp_path: Path, part: int) -> None:
    live_all(tmp_path, every(4, range(SEEDS + part, SEEDS + SEEDS_SLOW, PARTS)))
