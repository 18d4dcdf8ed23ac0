"""Random histories of a store and of its dispatch: after each run that ends, the files are those of
a rebuild."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import logdex
from logdex.jobs.tasks import LocalRunner
from logdex.rocketmq.dispatch.job import Dispatcher
from logdex.testing.fault_env import Fault, FaultEnv, Killed
from tests.examples import cases, every
from tests.unit.rocketmq.dispatch.growing import CONFIG, SIZES, grow, require_found, require_rebuilt


class History:
    """A store that changes at random, and an output that follows it. There are three kinds:
    messages are cut off its log's end, others take their places, and runs are killed; or old files
    of the log go, and the files are those of all messages that ever were; or all of this happens,
    and the files lead to the messages that the log has."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.folder, self.store, self.output = folder, folder / "store", folder / "out"
        self.seen = folder / "seen"
        self.kind = seed % 3
        self.begin = self.position = self.runs = 0
        grow(self.store, 5, seed)

    def step(self) -> None:
        kinds = [self.grow, self.grow, self.run]
        if self.kind != 1:
            kinds += [self.cut, self.kill, self.lose_power]
        if self.kind != 0:
            kinds += [self.remove_old_files]
        self.chance.choice(kinds)()

    def grow(self) -> None:
        grow(self.store, self.chance.randint(1, 30), self.chance.randrange(999))

    def remove_old_files(self) -> None:
        """As far as the dispatch has come; or as a broker, which does not know how far that is."""
        if self.kind == 1:
            self.begin = self.position // 4096 * 4096
        else:
            starts = sorted(int(path.name) for path in (self.store / "commitlog").iterdir())
            self.begin = self.chance.choice([start for start in starts if start >= self.begin])

    def cut(self) -> None:
        """As after a crash of the broker: the log ends at an earlier message. Then it may go on
        with others."""
        with logdex.open(self.store, **SIZES) as snapshot:
            offsets = snapshot.scan().arrow_reader().read_all()["physical_offset"].to_pylist()
        at = self.chance.choice([offset for offset in offsets[1:] if offset > self.begin] or [0])
        if not at:
            return
        for path in (self.store / "commitlog").iterdir():
            keep = max(min(at - int(path.name), 4096), 0)
            if keep:
                path.write_bytes(path.read_bytes()[:keep].ljust(4096, b"\0"))
            else:
                path.unlink()
        for path in self.store.iterdir():
            if path.name != "commitlog":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        if self.chance.random() < 0.7:
            self.grow()

    def look(self) -> Path:
        """What the dispatch sees of the store."""
        shutil.rmtree(self.seen, ignore_errors=True)
        shutil.copytree(self.store, self.seen)
        for path in (self.seen / "commitlog").iterdir():
            if int(path.name) < self.begin:
                path.unlink()
        return self.seen

    def kill(self, *, power_cut: bool = False) -> None:
        self.output.mkdir(exist_ok=True)
        at = self.chance.randint(1, 400)
        env = FaultEnv(str(self.output), Fault(at))
        try:
            with Dispatcher(self.look(), self.output, CONFIG, env=env) as job:
                job.step()
        except Killed:
            pass
        env.release()
        if env.hits and power_cut:
            self.runs += 1
            survivor = self.folder / f"out-{self.runs}"
            env.survivor(str(survivor), at)
            self.output = survivor

    def lose_power(self) -> None:
        self.kill(power_cut=True)

    def run(self) -> None:
        with Dispatcher(self.look(), self.output, CONFIG) as job:
            part = self.chance.choice((700, 5000))
            job.step(LocalRunner() if self.chance.random() < 0.5 else None, part_size_bytes=part)
            self.position = job.report.end_offset
        if self.kind == 2:
            require_found(self.look(), self.output, self.folder / "rebuilt")
        else:
            require_rebuilt(self.store, self.output, self.folder / "rebuilt")


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", cases(range(4), 4))
def test_histories(tmp_path: Path, part: int) -> None:
    for seed in every(10, range(part, 400, 4)) if part else [0, 1, 2]:
        history = History(tmp_path / str(seed), seed)
        for _ in range(20 if part else 6):
            history.step()
        history.run()
        shutil.rmtree(tmp_path / str(seed))
