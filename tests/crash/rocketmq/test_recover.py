"""What RocketMQ's `recover` publishes, killed before and after every change of names and every
fsync."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import StorageError, UsageError
from logdex.formats import detect, format_of
from logdex.io.env import Env
from logdex.rocketmq import Message, MessageStore
from logdex.rocketmq.recover import recover
from logdex.testing import Fault, FaultEnv
from tests.crash.publications import (
    EVERY_KILL,
    OldDiskEnv,
    Publication,
    check_killed,
    check_named_and_mended,
    killed_while_publishing,
    undated,
)
from tests.crash.rocketmq.stores import CONFIG, make_outputs
from tests.crash.trees import Fresh, Outputs, put_tree, tree
from tests.unit.rocketmq.small_stores import FILE_SIZE

SIZES = {"mapped_file_size_consume_queue": 160, "max_hash_slot_num": 7, "max_index_num": 60}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    """A store with a damaged message, a file abort and a checkpoint."""
    outputs = make_outputs(tmp_path_factory.mktemp("recovering"), 24)
    path = outputs.source / "commitlog" / f"{0:020d}"
    data = path.read_bytes()
    path.write_bytes(data[:300] + b"\xff" * 50 + data[350:])
    (outputs.source / "abort").write_text("77")
    (outputs.source / "checkpoint").write_bytes(bytes(4096))
    return outputs


def publication(outputs: Outputs, *, in_place: bool) -> Publication:
    """A recovery that infers all sizes in place, and is told of them elsewhere."""

    def start(folder: Path) -> Path:
        store = folder / "store"
        shutil.copytree(outputs.source, store)
        put_tree(outputs.right, store)
        return store if in_place else folder / "new" / "out"

    def run(folder: Path, env: Env) -> object:
        found = detect(str(folder / "store"))
        output = None if in_place else str(folder / "new" / "out")
        settings: dict[str, Any] = {} if in_place else SIZES
        report = format_of(found).recover(found, settings, output, in_place=in_place, env=env).run(None)
        skipped = [(each.path.removeprefix(str(folder)), each.start, each.end) for each in report.skipped]
        return report.messages, report.placeholders, report.queues, skipped, report.assumed, sorted(report.kept)

    return Publication(start, run, marks=("abort",))


@EVERY_KILL
def test_in_place(outputs: Outputs, fresh: Fresh, every: int) -> None:
    check_killed(publication(outputs, in_place=True), fresh, every)


@EVERY_KILL
def test_elsewhere(outputs: Outputs, fresh: Fresh, every: int) -> None:
    check_killed(publication(outputs, in_place=False), fresh, every)


@EVERY_KILL
def test_in_place_where_names_cannot_be_exchanged(outputs: Outputs, fresh: Fresh, every: int) -> None:
    """A kill between two renames leaves a store without commitlog/, which the next run finds under
    its dated name."""
    check_killed(publication(outputs, in_place=True), fresh, every, OldDiskEnv, may_miss=True)


def test_info_and_verify_name_it(outputs: Outputs, tmp_path: Path) -> None:
    target = check_named_and_mended(publication(outputs, in_place=True), tmp_path)
    assert not (target / "abort").exists()


def test_a_half_published_store_is_not_written(outputs: Outputs, tmp_path: Path) -> None:
    """What is put into such a store would be undone by the run that completes the recovery."""
    case = publication(outputs, in_place=True)
    target = killed_while_publishing(case, tmp_path)
    before = tree(target)
    with pytest.raises(UsageError, match=r"recover .* was killed while it published") as refused:
        MessageStore.open(target)
    assert refused.value.hint is not None
    assert refused.value.hint.endswith(f"logdex recover {target} --in-place")
    assert tree(target) == before
    case.run(target.parent, Env())
    with MessageStore.open(target, background=False) as store:
        assert store.put_message(Message("T", b"new")).is_stored


@pytest.mark.parametrize("every", [40, pytest.param(1, marks=pytest.mark.slow)])
def test_a_refused_operation_leaves_nothing_half_done(outputs: Outputs, fresh: Fresh, every: int) -> None:
    """The error says what was refused, no file stays open, and the output is as before, or
    complete."""
    case = publication(outputs, in_place=True)
    folder = fresh()
    root = case.start(folder)
    before = undated(tree(root))
    env = FaultEnv(str(folder))
    case.run(folder, env)
    done = undated(tree(root))
    for at in range(1, len(env.log) + 1, every):
        folder = fresh()
        root = case.start(folder)
        broken = FaultEnv(str(folder), Fault(at, 5))
        with suppress(StorageError):
            case.run(folder, broken)
        left = undated({name: data for name, data in tree(root).items() if not name.startswith(".logdex-")})
        assert left in (before, done), env.log[at - 1]
        assert broken.open_paths == []


def test_a_recovery_outlives_power_cuts(outputs: Outputs, tmp_path: Path) -> None:
    """What a recovery has reported is there after any power cut."""
    root = tmp_path / "disk" / "store"
    shutil.copytree(outputs.source, root)
    env = FaultEnv(str(tmp_path / "disk"))
    recover(root, tmp_path / "disk" / "out", CONFIG, env=env)
    done = tree(tmp_path / "disk" / "out")
    assert len(done[f"commitlog/{0:020d}"] or b"") == FILE_SIZE
    for seed in range(4):
        env.survivor(str(tmp_path / f"left-{seed}"), seed)
        assert tree(tmp_path / f"left-{seed}" / "out") == done
