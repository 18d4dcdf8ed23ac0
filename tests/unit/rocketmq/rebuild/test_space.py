"""The free-space check reckons with what is in use, not with files that were allocated in
advance."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from logdex.errors import EnvironmentProblem
from logdex.io.env import Env
from logdex.rocketmq.rebuild import rebuild, rebuild_on
from logdex.rocketmq.rebuild.space import output_size_bytes
from logdex.testing.store_builder import make_message, write_commit_log
from tests.unit.rocketmq.rebuild.test_job import Serial
from tests.unit.rocketmq.small_stores import CONFIG

FILE_SIZE = 256 << 20
LARGE = replace(CONFIG, mapped_file_size_commit_log=FILE_SIZE)


class Disk(Env):
    """A disk with some free bytes."""

    def __init__(self, free: int, *, check_space: bool = True) -> None:
        super().__init__(check_space=check_space)
        self.free = free

    def free_bytes(self, path: str) -> int:
        return self.free


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A file of 256 MiB with twenty messages, and one that the broker has made in advance."""
    root = tmp_path / "store"
    write_commit_log(str(root), [make_message(queue_offset=number) for number in range(20)], 8192)
    first = root / "commitlog" / f"{0:020d}"
    with first.open("r+b") as file:
        file.truncate(FILE_SIZE)
    with (root / "commitlog" / f"{FILE_SIZE:020d}").open("wb") as file:
        file.truncate(FILE_SIZE)
    return root


@pytest.mark.slow
def test_what_is_in_use_counts(store: Path, tmp_path: Path) -> None:
    assert output_size_bytes(2 * FILE_SIZE, LARGE) > 100 << 20
    assert rebuild(store, tmp_path / "local", LARGE, sync=False, env=Disk(8192)).messages == 20
    assert rebuild_on(Serial(), store, tmp_path / "tasks", LARGE, sync=False, env=Disk(8192)).messages == 20


def test_too_little_space_is_refused_unless_told_otherwise(store: Path, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="only 10 are free"):
        rebuild(store, tmp_path / "out", LARGE, sync=False, env=Disk(10))
    assert rebuild(store, tmp_path / "out", LARGE, sync=False, env=Disk(10, check_space=False)).messages == 20


def test_the_slots_of_every_index_file_count() -> None:
    few = replace(CONFIG, max_hash_slot_num=1000, max_index_num=1001)
    many = replace(few, max_index_num=11)
    assert output_size_bytes(20_000, many) > 5 * output_size_bytes(20_000, few)
