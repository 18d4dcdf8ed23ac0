"""Random histories of logs and of their dispatch: after each run that ends, the files are those of
a rebuild."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from logdex.jobs.tasks import LocalRunner
from logdex.kafka.directory.recognise import require_kafka
from logdex.kafka.dispatch.job import LogDispatcher
from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import LogConfig
from logdex.testing.fault_env import Fault, FaultEnv, Killed
from tests.examples import cases, every
from tests.unit.kafka.dispatch.growing import INTERVAL, dispatcher, grow, require_rebuilt

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=INTERVAL, retention_ms=-1)
COMPACTED = LogConfig(segment_bytes=2000, index_interval_bytes=INTERVAL, cleanup_policy=("compact",))


class History:
    """Logs that change at random, and an output that follows them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.logs, self.output, self.rebuilt = folder / "logs", folder / "out", folder / "rebuilt"
        self.folder, self.runs = folder, 0
        grow(self.logs / "a-0", 5, seed)

    def step(self) -> None:
        names = ["grow", "grow", "roll", "retain", "truncate", "compact", "recreate", "kill", "power cut", "run", "run"]
        name = self.chance.choice(names)
        {"grow": self.grow, "recreate": self.recreate, "run": self.run}.get(name, lambda: self.other(name))()

    def grow(self) -> None:
        keep = self.chance.choice((-1, -1, 3000))
        grow(self.partition(), self.chance.randint(1, 12), self.chance.randrange(999), retention_bytes=keep)

    def partition(self) -> Path:
        return self.logs / self.chance.choice(("a-0", "a-1", "b-0"))

    def recreate(self) -> None:
        """A topic is deleted and, if not all are, perhaps made again with other records."""
        path = self.partition()
        shutil.rmtree(path, ignore_errors=True)
        if self.chance.random() < 0.7 or not any(self.logs.iterdir()):
            grow(path, self.chance.randint(1, 9), self.chance.randrange(999))

    def other(self, name: str) -> None:
        if name in ("kill", "power cut"):
            self.kill(self.chance.randint(1, 220), is_power_cut=name == "power cut")
            return
        path = self.partition()
        if not path.exists():
            return
        with Log.open(path, COMPACTED if name == "compact" else CONFIG) as log:
            if name == "roll":
                log.roll()
            elif name == "truncate":
                log.truncate_to(self.chance.randint(log.log_start_offset, log.log_end_offset))
            elif name == "compact":
                log.compact()

    def kill(self, at: int, *, is_power_cut: bool) -> None:
        self.output.mkdir(exist_ok=True)
        env = FaultEnv(str(self.output), Fault(at))
        try:
            with LogDispatcher(
                require_kafka(str(self.logs)), self.output, index_interval_bytes=INTERVAL, env=env
            ) as job:
                job.step()
        except Killed:
            pass
        env.release()
        if env.hits and is_power_cut:
            self.runs += 1
            survivor = self.folder / f"out-{self.runs}"
            env.survivor(str(survivor), at)
            self.output = survivor

    def run(self) -> None:
        with dispatcher(self.logs, self.output) as job:
            job.step(LocalRunner() if self.chance.random() < 0.5 else None, group_bytes=self.chance.choice((1, None)))
        require_rebuilt(self.logs, self.output, self.rebuilt)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", cases(range(4), 4))
def test_histories(tmp_path: Path, part: int) -> None:
    for seed in every(10, range(part, 400, 4)) if part else [0]:
        history = History(tmp_path / str(seed), seed)
        for _ in range(15 if part else 10):
            history.step()
        history.run()
        shutil.rmtree(tmp_path / str(seed))
