"""A Kafka `Log` and power cuts: random work, killed at a random operation, any part of what was not
synced lost."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from logdex.testing import Fault, FaultEnv
from tests.crash.kafka.runs import NAME, Model, check_left, go_on, make_config, make_home, raw_batches, run_until_killed

SEEDS = 8
SEEDS_SLOW = 2232
PARTS = 8
NAMES = frozenset({"rename", "remove", "truncate"})


def power_cut(folder: Path, seed: int, *, changes: bool = False) -> None:
    """One to three power cuts of the same log, each after one or more processes that were killed.
    With `changes` each process has settings of its own."""
    chance = random.Random(seed)
    config, model = make_config(chance), Model()
    place = folder / "0"
    make_home(place, chance)
    for number in range(1, chance.choice((1, 1, 2, 3)) + 1):
        env = FaultEnv(str(place), fault(chance, is_first=number == 1))
        run_until_killed(env, model, config, chance)
        while chance.random() < 0.3:
            env.restart(fault(chance, is_first=False))
            config = make_config(chance) if changes else config
            run_until_killed(env, model, config, chance)
        config = make_config(chance) if changes else config
        raw: dict[int, set[bytes]] = defaultdict(set)
        for base_offset, data in raw_batches(place / NAME):
            raw[base_offset].add(data)
        place = folder / str(number)
        env.survivor(str(place), seed)
        if not (place / NAME).is_dir():
            assert not model.was_open
            return
    check_left(place / NAME, model, config, raw=raw)
    go_on(place / NAME, model, config)


def fault(chance: random.Random, *, is_first: bool) -> Fault:
    """Where a process dies: while it opens the log, while it works, often between names, or not
    before its end."""
    if chance.random() < 0.4:
        return Fault(chance.randrange(1, 150), kinds=NAMES)
    return Fault(chance.randrange(1, 600 if is_first or chance.random() < 0.5 else 80))


def cut_all(folder: Path, seeds: Sequence[int], *, changes: bool = False) -> None:
    for seed in seeds:
        (folder / str(seed)).mkdir()
        try:
            power_cut(folder / str(seed), seed, changes=changes)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("part", range(PARTS))
def test_power_cuts(tmp_path: Path, part: int) -> None:
    cut_all(tmp_path, range(part, SEEDS, PARTS))


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("part", range(PARTS))
def test_many_power_cuts(tmp_path: Path, part: int) -> None:
    cut_all(tmp_path, range(SEEDS + part, SEEDS + SEEDS_SLOW, PARTS))


@pytest.mark.parametrize("seeds", [(*range(8), 23), pytest.param(range(8, 400), marks=[pytest.mark.slow])])
@pytest.mark.timeout(1800)
def test_power_cuts_between_changes_of_the_settings(tmp_path: Path, seeds: Sequence[int]) -> None:
    """With seed 23 a merge fails because an index is full, and a later one is killed."""
    cut_all(tmp_path, seeds, changes=True)
