"""A dispatch that follows the logs of a running broker, which writes to them, rolls, removes and
compacts segments."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from logdex.convert.index_pipeline import IndexPipeline
from logdex.io.env import Env
from logdex.kafka.directory.recognise import require_kafka
from logdex.kafka.dispatch.job import LogDispatcher
from tests.interop.kafka.peer import VERSIONS, Line, needs_peers, run_broker, serving, topic_config
from tests.interop.kafka.test_live import READING
from tests.interop.kafka.test_ping_pong import CONFIG
from tests.unit.kafka.dispatch.growing import require_rebuilt

pytestmark = [pytest.mark.needs_java, needs_peers, pytest.mark.timeout(900), pytest.mark.slow]

ROUNDS = 5
OFTEN = {"log.cleaner.backoff.ms": "200", "log.retention.check.interval.ms": "300"}


class OnlyOutput(Env):
    """Fails whatever would change something outside of the output."""

    def __init__(self, output: Path) -> None:
        super().__init__()
        self._output = str(output)

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        assert kind in READING or path.startswith(self._output) or self._output.startswith(path), f"{kind} {path}"
        with super().operation(kind, path):
            yield


class Following(threading.Thread):
    """A dispatch with `--follow`, run again from where it was each time that `again` is called."""

    def __init__(self, home: Path, output: Path) -> None:
        super().__init__()
        self.home, self.output = home, output
        self.error: BaseException | None = None
        self.segments = 0
        self._job = self._open()
        self._over = threading.Event()

    def _open(self) -> LogDispatcher:
        return LogDispatcher(require_kafka(str(self.home)), self.output, env=OnlyOutput(self.output))

    def run(self) -> None:
        try:
            while True:
                with self._job as job:
                    IndexPipeline(job).run(follow=True, every_s=0.1)
                self.segments += job.report.segments
                if self._over.is_set():
                    return
                self._job = self._open()
        except BaseException as error:
            self.error = error

    def again(self) -> None:
        """Ends the run, so that another one begins."""
        self._job.stop()

    def finish(self) -> None:
        """Ends it once nothing is new for a second."""
        before = -1
        while self.is_alive() and before != self._job.report.segments:
            before = self._job.report.segments
            time.sleep(1)
        self._over.set()
        self._job.stop()
        self.join(60)


def make_home(tmp_path: Path, version: str) -> Path:
    """A broker's log directory with a topic that loses old segments and one that is compacted."""
    home, settings = tmp_path / "home", topic_config(version, replace(CONFIG, segment_bytes=8000))
    settings["file.delete.delay.ms"] = "100"
    removed = {"name": "removed", "partitions": 2, "config": {**settings, "retention.bytes": "30000"}}
    compacted = {**settings, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001"}
    run_broker(home, version, {"topics": [removed, {"name": "compacted", "partitions": 1, "config": compacted}]})
    return home


def steps() -> list[Line]:
    found: list[Line] = []
    for turn in range(ROUNDS):
        common = {"do": "produce", "records": 150, "flushEvery": 5, "value": [20, 120], "headers": 1}
        for partition, codec in enumerate(("lz4", "none")):
            found.append({**common, "topic": "removed", "partition": partition, "codec": codec})
        found.append({**common, "topic": "compacted", "partition": 0, "keys": "mod:15", "tombstones": 0.1})
        ids = {"do": "transactions", "ids": ["one", "two"], "records": 8, "rounds": 2, "abortEvery": 3, "flushEvery": 4}
        found.append({**ids, "topic": "removed", "partition": 1})
        found.append({"do": "await-clean", "topic": "compacted"} if turn % 2 else {"do": "sleep", "ms": 700})
    return found


@pytest.mark.parametrize("end", ["clean", "halt"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_live_broker_is_followed(version: str, end: str, tmp_path: Path) -> None:
    """In the end the files are those of a rebuild, byte for byte. Nothing else is written, and the
    run ends and begins again meanwhile."""
    home, output = make_home(tmp_path, version), tmp_path / "out"
    following = Following(home, output)
    spec = {"seed": 3, "end": end, "broker": OFTEN, "steps": steps()}
    with serving(home, version, spec, by_hand=True) as broker:
        following.start()
        timer = threading.Timer(4, following.again)
        timer.start()
        broker.wait_until_done()
        timer.join()
        derived = following.segments + following._job.report.segments
    following.finish()
    assert following.error is None
    assert not following._job.report.lossy
    logs = [*home.glob("removed-*/*.log"), *home.glob("compacted-*/*.log")]
    assert derived > len(logs), "it followed while the broker wrote"
    assert min(int(path.stem) for path in home.glob("removed-0/*.log")) > 0
    assert any(path.stat().st_size < 4000 for path in home.glob("compacted-0/*.log"))
    require_rebuilt(home, output, tmp_path / "rebuilt", interval=None)
