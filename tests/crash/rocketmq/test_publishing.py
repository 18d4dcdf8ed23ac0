"""What RocketMQ's `rebuild` publishes, killed before and after every change of names and every
fsync."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logdex.formats import detect, format_of
from logdex.io.env import Env
from logdex.jobs.tasks import LocalRunner
from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.testing import Fault, Killed
from tests.crash.publications import EVERY_KILL, OldDiskEnv, Publication, check_killed, check_named_and_mended
from tests.crash.rocketmq.stores import make_outputs
from tests.crash.trees import Fresh, Outputs, put_tree

ENGINES = pytest.mark.parametrize("engine", ["local", "tasks"])


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    return make_outputs(tmp_path_factory.mktemp("publishing"), 30)


def publication(outputs: Outputs, engine: str, *, in_place: bool, had_old: bool) -> Publication:
    """A rebuild that infers all sizes from the old files, where there are any."""

    def start(folder: Path) -> Path:
        store, out = folder / "store", folder / "new" / "out"
        shutil.copytree(outputs.source, store)
        if in_place or had_old:
            put_tree(outputs.old, store)
        if had_old and not in_place:
            put_tree(outputs.old, out)
        return store if in_place else out

    def run(folder: Path, env: Env) -> object:
        found = detect(str(folder / "store"))
        output = None if in_place else str(folder / "new" / "out")
        sizes = {"mapped_file_size_consume_queue": 160, "max_hash_slot_num": 7, "max_index_num": 60}
        settings: dict[str, Any] = {} if in_place else sizes
        job = format_of(found).rebuild(found, settings, output, in_place=in_place, env=env)
        report: Any = job.run(None) if engine == "local" else job.run_on(LocalRunner(), "tasks")
        return report.messages, report.queues, report.index_files, report.assumed, sorted(report.kept)

    return Publication(start, run, has_power_cuts=engine == "local")


@EVERY_KILL
@ENGINES
def test_in_place(outputs: Outputs, fresh: Fresh, engine: str, every: int) -> None:
    check_killed(publication(outputs, engine, in_place=True, had_old=True), fresh, every)


@EVERY_KILL
@ENGINES
@pytest.mark.parametrize("had_old", [False, True], ids=["new output", "old output"])
def test_elsewhere(outputs: Outputs, fresh: Fresh, engine: str, had_old: bool, every: int) -> None:
    check_killed(publication(outputs, engine, in_place=False, had_old=had_old), fresh, every)


@EVERY_KILL
@ENGINES
def test_in_place_where_names_cannot_be_exchanged(outputs: Outputs, fresh: Fresh, engine: str, every: int) -> None:
    """A kill between two renames leaves a folder under its dated name only. The next run finds it
    and infers sizes from it."""
    found = publication(outputs, engine, in_place=True, had_old=True)
    check_killed(found, fresh, every, OldDiskEnv, may_miss=True)


def test_sizes_are_those_of_the_folder_that_is_set_aside(outputs: Outputs, fresh: Fresh) -> None:
    """Where names cannot be exchanged, a kill may leave a store without one of its folders."""
    case = publication(outputs, "local", in_place=True, had_old=True)
    folder = fresh()
    right = resolve_config(str(case.start(folder)))
    missing = set()
    for at in range(1, 9):
        folder = fresh()
        root = case.start(folder)
        env = OldDiskEnv(str(folder), Fault(at, kinds=frozenset({"rename"})))
        with suppress(Killed):
            case.run(folder, env)
        env.release()
        missing |= {name for name in ("consumequeue", "index") if not (root / name).exists()}
        found = resolve_config(str(root))
        assert replace(found, delay_levels_shown=right.delay_levels_shown) == right
    assert missing == {"consumequeue", "index"}


def test_info_and_verify_name_it(outputs: Outputs, tmp_path: Path) -> None:
    check_named_and_mended(publication(outputs, "local", in_place=True, had_old=True), tmp_path)
