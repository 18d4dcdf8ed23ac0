"""A Kafka `Log` and power cuts: random work, killed at a random operation, any part of what was not synced lost."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from logdex.kafka.log import Log
from logdex.testing import Fault, FaultEnv, Killed
from tests.crash.kafka_runs import NAME, check_left, clock, go_on, run_until_cut

SEEDS = 240
SEEDS_SLOW = 2000
PARTS = 8


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The power cut is `FaultEnv`'s: the disk below need not be waited for."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def power_cut(folder: Path, seed: int) -> None:
    env, model, config = run_until_cut(folder / "run", seed)
    chance = random.Random(seed ^ 0x5EED)
    left = folder / "left"
    env.survivor(str(left), seed)
    if not (left / NAME).is_dir():
        assert model.kept == 0
        return
    if chance.random() < 0.5:  # the power goes again while the log is recovered
        again = FaultEnv(str(left), Fault(chance.randrange(1, 80)))
        try:
            Log.open(str(left / NAME), config, env=again, clock_ms=clock).close()
        except Killed:
            pass
        again.release()
        left = folder / "left-again"
        again.survivor(str(left), seed)
    check_left(left / NAME, model, config)
    go_on(left / NAME, model, config)


@pytest.mark.parametrize("part", range(PARTS))
def test_power_cuts(tmp_path: Path, part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        (tmp_path / str(seed)).mkdir()
        try:
            power_cut(tmp_path / str(seed), seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("part", range(PARTS))
def test_many_power_cuts(tmp_path: Path, part: int) -> None:
    for seed in range(SEEDS + part, SEEDS + SEEDS_SLOW, PARTS):
        (tmp_path / str(seed)).mkdir()
        try:
            power_cut(tmp_path / str(seed), seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
