"""Kafka rebuilds that are killed, refused or cut by a power failure at every operation: nothing is
half published, nothing is lost, and the next run is right."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logdex.io.env import Env
from logdex.jobs.journal import LOCK_NAME
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import encode_batch
from logdex.kafka.files import file_names as segment_files
from logdex.kafka.rebuild import rebuild
from logdex.testing import Fault, FaultEnv, Killed
from tests.crash.trees import (
    EVERY,
    REFUSALS,
    Fresh,
    Outputs,
    check_outlives_power_cuts,
    chosen,
    count_harmed_without_sync,
    fingerprint,
    killed_at,
    operations,
    put_tree,
    refused_at,
    run_again,
    tree,
)
from tests.examples import cases

INTERVAL = 200
PARTITIONS = ("events-0", "orders-1")


def write_logs(root: Path, batches: int) -> Path:
    """Two partitions of two segments each, with idempotent producers."""
    for number, partition in enumerate(PARTITIONS):
        (root / partition).mkdir(parents=True)
        offset = 0
        for _ in range(2):
            base, data = offset, b""
            for batch in range(batches):
                records = [Record(value=b"v" * (30 + batch), key=b"k", timestamp_ms=1000 + offset + batch)] * 2
                data += encode_batch(
                    records,
                    base_offset=offset,
                    producer_id=7 + number,
                    producer_epoch=0,
                    base_sequence=offset,
                    leader_epoch=base // 4,
                )
                offset += 2
            (root / partition / f"{base:020d}.log").write_bytes(data)
    (root / segment_files.META_PROPERTIES).write_text("version=1\ncluster.id=c\nnode.id=1\n")
    return root


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    folder = tmp_path_factory.mktemp("outputs")
    trees = []
    for name, batches in (("old", 3), ("logs", 6)):
        write_logs(folder / name, batches)
        rebuild(str(folder / name), str(folder / f"{name}-out"), index_interval_bytes=INTERVAL, sync=False)
        trees.append({partition: tree(folder / f"{name}-out" / partition) for partition in PARTITIONS})
    return Outputs(folder / "logs", trees[1], trees[0])


def run(outputs: Outputs, output: Path, env: Env, *, sync: bool = True) -> None:
    rebuild(str(outputs.source), str(output), index_interval_bytes=INTERVAL, env=env, sync=sync)


def test_the_logs_tell_something(outputs: Outputs) -> None:
    for name in PARTITIONS:
        names = {path.rpartition(".")[2] for path in outputs.right[name]}
        assert names == {"index", "timeindex", "snapshot", "leader-epoch-checkpoint"}
        assert all(outputs.right[name][f"{0:020d}.{suffix}"] for suffix in ("index", "timeindex"))


@EVERY
@pytest.mark.parametrize("had_old", cases([False, True], 2), ids=["new output", "old output"])
def test_killed_at_operations(outputs: Outputs, fresh: Fresh, had_old: bool, every: int) -> None:
    logs = fingerprint(outputs.source)
    log = operations(run, outputs, fresh(), had_old=had_old)
    total = len(log)
    for at in chosen(log, every):
        folder = fresh()
        output, env = killed_at(run, outputs, folder, at, had_old=had_old)
        left = folder.parent / f"left-{at}"
        env.survivor(str(left), seed=at)
        outputs.check(left / "new" / "out", had_old=had_old)
        shutil.rmtree(left)
        outputs.check(output, had_old=had_old)
        if at % 5 == 0 or at > total - 12:
            run(outputs, output, Env(), sync=False)
            outputs.check(output, had_old=had_old)
            outputs.check_done(output)
    assert fingerprint(outputs.source) == logs


@EVERY
def test_refused_at_operations(outputs: Outputs, fresh: Fresh, every: int) -> None:
    logs = fingerprint(outputs.source)
    clean = operations(run, outputs, fresh(), had_old=True)
    last_rename = max(number for number, (kind, _) in enumerate(clean, 1) if kind == "rename")
    for at in chosen(clean, every):
        code = REFUSALS[at % len(REFUSALS)]
        folder = fresh()
        output = refused_at(run, outputs, folder, at, code, had_old=True)
        if at <= last_rename:
            names = {path.name for path in output.iterdir()} - {LOCK_NAME}
            assert names == set(PARTITIONS), clean[at - 1]
            assert {name: tree(output / name) for name in PARTITIONS} == outputs.old
        outputs.check(output, had_old=True)
        if at % 5 == 0 or at > last_rename:
            run_again(run, outputs, output)
    assert fingerprint(outputs.source) == logs


def start_in_place(outputs: Outputs, folder: Path) -> Path:
    root = folder / "logs"
    shutil.copytree(outputs.source, root)
    put_tree(outputs.old, root)
    return root


def check_in_place(outputs: Outputs, root: Path, *, is_done: bool = False) -> None:
    """Each file of the old is there, whole, under its own or a dated name; each new one is
    whole."""
    for name in PARTITIONS:
        found, right, old = tree(root / name), outputs.right[name], outputs.old[name]
        for path, data in old.items():
            assert data in [found[other] for other in found if other.startswith(path)], path
        assert all(found[path] in (right[path], old.get(path)) for path in found.keys() & right.keys())
        if is_done:
            assert {path: found.get(path) for path in right} == right
            assert not any(path.startswith(".logdex") for path in found)


@EVERY
def test_in_place_killed_at_operations(outputs: Outputs, fresh: Fresh, every: int) -> None:
    def in_place(root: Path, env: Env, *, sync: bool = True) -> None:
        rebuild(str(root), str(root), index_interval_bytes=INTERVAL, in_place=True, env=env, sync=sync)

    folder = fresh()
    env, root = FaultEnv(str(folder)), start_in_place(outputs, folder)
    in_place(root, env)
    check_in_place(outputs, root, is_done=True)
    for at in chosen(env.log, every):
        folder = fresh()
        root = start_in_place(outputs, folder)
        logs = {path: path.read_bytes() for path in root.rglob("*.log")}
        env = FaultEnv(str(folder), Fault(at))
        with pytest.raises(Killed):
            in_place(root, env)
        env.release()
        env.survivor(str(folder / "left"), seed=at)
        check_in_place(outputs, folder / "left" / "logs")
        check_in_place(outputs, root)
        assert {path.name for path in root.iterdir()} - {LOCK_NAME} == {*PARTITIONS, segment_files.META_PROPERTIES}
        if at % 5 == 0:
            in_place(root, Env(), sync=False)
            check_in_place(outputs, root, is_done=True)
        assert {path: path.read_bytes() for path in root.rglob("*.log")} == logs


def test_what_a_rebuild_has_reported_outlives_a_power_cut(outputs: Outputs, fresh: Fresh) -> None:
    check_outlives_power_cuts(run, outputs, fresh(), had_old=True, seeds=20)


def test_without_sync_a_power_cut_does_harm(outputs: Outputs, fresh: Fresh) -> None:
    """That the fault model bites."""
    assert count_harmed_without_sync(run, outputs, fresh(), seeds=20) > 0
