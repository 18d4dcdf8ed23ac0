"""`verify` of a log directory goes on behind a partition that it cannot read."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import StorageError
from logdex.formats import detect, format_of
from logdex.io.env import Env
from logdex.kafka import Log, Record
from logdex.kafka.verify import verify


class Unreadable(Env):
    """A disk on which nothing of one directory can be read."""

    def __init__(self, path: Path, *, but: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.path, self.but = str(path), but

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        if path.startswith(self.path) and kind not in self.but:
            raise StorageError("input/output error", path=path, errno=errno.EIO)
        with super().operation(kind, path):
            yield


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for number in range(3):
        with Log.open(tmp_path / f"events-{number}") as log:
            log.append([Record(value=b"v")] * (number + 1))
    return tmp_path


def test_the_other_partitions_are_checked(logs: Path) -> None:
    whole = verify(logs)
    assert (whole.is_sound, whole.messages) == (True, 6)
    for number in range(3):
        damaged = logs / f"events-{(number + 1) % 3}" / f"{0:020d}.log"
        before = damaged.read_bytes()
        damaged.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        env = Unreadable(logs / f"events-{number}", but=("is_dir",))
        found: Any = detect(logs, env=env)
        assert format_of(found).log_size_bytes(found, env=env) > 0
        report = verify(found, env=env)
        told = {(each.check, each.path): each.message for each in report.findings}
        assert told["unreadable", str(logs / f"events-{number}")].endswith("input/output error")
        assert ("batch-crc", str(damaged)) in told
        assert report.messages == 6 - (number + 1) - ((number + 1) % 3 + 1)
        damaged.write_bytes(before)
