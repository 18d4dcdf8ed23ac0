"""`verify` beside a `Log` that appends, rolls, trims and compacts: it finds nothing wrong but what
is wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from logdex.io.env import Env
from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.verify import verify
from logdex.kafka.verify.index import index_entries
from tests.unit.kafka import busy_writer
from tests.unit.kafka.snapshot.test_changed_segments import CONFIG, put

KINDS = ("retain", "compact", "keep")


@contextmanager
def writing(path: Path, kind: str) -> Iterator[None]:
    """A thread that writes until the end of the block."""
    over = threading.Event()
    thread = threading.Thread(target=busy_writer.write, args=(str(path), kind, over.is_set))
    thread.start()
    try:
        while len(list(path.glob("*.log"))) < 3:
            time.sleep(0.01)
        yield
        assert thread.is_alive()
    finally:
        over.set()
        thread.join()


def told(path: Path) -> list[str]:
    return [str(finding) for finding in verify(path).findings]


@pytest.mark.live_writer
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_wrong_beside_a_thread(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "events-0"
    with writing(path, kind):
        for _ in range(2):
            assert told(path) == []
    assert told(path) == []


@pytest.mark.live_writer
def test_damage_is_found_beside_a_thread(tmp_path: Path) -> None:
    path = tmp_path / "events-0"
    with writing(path, "keep"):
        first = path / "00000000000000000000.log"
        with first.open("r+b") as file:
            file.seek(70)
            file.write(b"\xff")
        found = {(finding.check, finding.path) for finding in verify(path).findings}
        assert ("batch-crc", str(first)) in found
        assert {each[1] for each in found} <= {str(first), *map(str, path.glob("*.snapshot"))}


class Meanwhile(Env):
    """Does something when the first .log is read, each time the directory is looked at."""

    def __init__(self, act: Callable[[], None]) -> None:
        super().__init__()
        self._act = act

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        if kind == "map_read" and path.endswith(f"/{0:020d}.log"):
            self._act()
        with super().operation(kind, path):
            yield


def test_a_partition_that_is_removed_meanwhile(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in ("events-0", "gone-0"):
        with Log.open(home / name, CONFIG) as log:
            put(log, 30)
    report = verify(home, env=Meanwhile(lambda: shutil.rmtree(home / "gone-0", ignore_errors=True)))
    assert report.findings == []
    assert "partition-deleted" in {info.kind for info in report.infos}


@pytest.mark.parametrize("max_findings", [1000, 0])
def test_every_look_may_find_something_else(max_findings: int, tmp_path: Path) -> None:
    """The log grows while it is read, and another batch is wrong at every look: none counts,
    however few findings are listed."""
    path = tmp_path / "events-0"
    with Log.open(path, LogConfig(index_interval_bytes=200)) as log:
        put(log, 60)
        first = path / "00000000000000000000.log"
        data, starts, turned = first.read_bytes(), [0], list[int]()
        while (end := starts[-1] + 12 + int.from_bytes(data[starts[-1] + 8 : starts[-1] + 12])) < len(data):
            starts.append(end)

        def act() -> None:
            turned.append(starts[len(turned) % len(starts)] + 70)
            with first.open("r+b") as file:
                for place in turned[-2:]:
                    file.seek(place)
                    byte = file.read(1)[0]
                    file.seek(place)
                    file.write(bytes([byte ^ 1]))
            put(log, 7)

        assert verify(path, env=Meanwhile(act), max_findings=max_findings).is_sound
        assert len(turned) > 1


class Later(Env):
    """Appends the rest of a log when its size is asked for, after it was read and `waits` questions
    were asked."""

    def __init__(self, path: Path, rest: bytes, waits: int) -> None:
        super().__init__()
        self._path, self._rest, self._left, self._was_read = path, rest, waits, False

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        if path == str(self._path):
            self._was_read = self._was_read or kind == "map_read"
            self._left -= self._was_read and kind == "size_bytes"
            if self._left < 0 and self._rest:
                with self._path.open("ab") as file:
                    file.write(self._rest)
                self._rest = b""
        with super().operation(kind, path):
            yield


@pytest.mark.parametrize("waits", [0, 1, 3])
def test_the_end_of_a_batch_shows_later(waits: int, tmp_path: Path) -> None:
    path = tmp_path / "events-0"
    with Log.open(path, CONFIG) as log:
        put(log, 5)
        newest = max(path.glob("*.log"))
        data = newest.read_bytes()
        os.truncate(newest, len(data) - 10)
        env = Later(newest, data[-10:], waits)
        assert [str(finding) for finding in verify(path, env=env).findings] == []
        assert newest.read_bytes() == data


@pytest.mark.parametrize("times", [1, 99])
def test_an_index_that_is_trimmed_and_preallocated_while_it_is_read(
    times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, size = tmp_path / "events-0", 1 << 20
    with Log.open(path, LogConfig(index_interval_bytes=200)) as log:
        put(log, 60)
        index = path / "00000000000000000000.index"
        os.truncate(index, size)
        used_slots, calls = index_entries._used_slots, 0

        def used_meanwhile(slots: Any) -> int:
            nonlocal calls
            if slots.nbytes != size or calls == times:
                return used_slots(slots)
            calls += 1
            with index.open("r+b") as file:
                file.truncate(4096)
                used = used_slots(slots)
                file.truncate(size)
            return used

        monkeypatch.setattr(index_entries, "_used_slots", used_meanwhile)
        checks = {finding.check for finding in verify(path).findings}
        assert checks == (set() if times == 1 else {"unreadable"})


@pytest.mark.slow
@pytest.mark.live_writer
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_wrong_beside_a_process(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "events-0"
    process = subprocess.Popen([sys.executable, busy_writer.__file__, path, kind])
    try:
        while len(list(path.glob("*.log"))) < 3:
            time.sleep(0.1)
        for _ in range(15 if kind == "keep" else 60):  # a log that keeps all takes longer each time
            assert told(path) == []
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
