"""A real broker starts on what a killed `recover` or `rebuild --in-place` left, without a second
run, and loses nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logdex import open_partition
from logdex.io.name_changes import STAGING_PREFIX
from logdex.jobs.journal import LOCK_NAME
from logdex.kafka.files.checkpoints import TopicPartition, format_checkpoint
from logdex.kafka.files.file_names import CLEAN_SHUTDOWN, RECOVERY_POINT_CHECKPOINT, TXN_INDEX_SUFFIX
from logdex.kafka.rebuild import rebuild
from logdex.kafka.recover import recover
from logdex.kafka.settings.log_config import LogConfig
from logdex.testing import Fault, FaultEnv, Killed
from tests.interop.kafka.peer import VERSIONS, Line, Lines, needs_peers, run_broker, serving, topic_config

pytestmark = [pytest.mark.needs_java, needs_peers, pytest.mark.timeout(2400), pytest.mark.slow]

EACH_VERSION = pytest.mark.parametrize("version", VERSIONS)
KILLS = 3
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=512)
NAMES = ("pp-0", "pp-1")


def steps() -> list[Line]:
    """Several segments in each partition, with transactions of which every third is aborted."""
    found: list[Line] = []
    for number in (0, 1):
        where = {"topic": "pp", "partition": number}
        found.append({"do": "produce", **where, "records": 400, "codec": "lz4", "flushEvery": 20, "idempotent": True})
        found.append({"do": "transactions", **where, "ids": ["a", "b"], "rounds": 6, "records": 20, "abortEvery": 3})
    return found


def write(home: Path, version: str, end: str) -> None:
    """Has a real broker write two partitions, and end: halted, or cleanly."""
    topic = {"name": "pp", "partitions": 2, "config": topic_config(version, CONFIG)}
    run_broker(home, version, {"topics": [topic], "steps": steps(), "end": end})


def messages(home: Path, version: str) -> dict[str, list[Any]]:
    """What real consumers read of each partition, uncommitted and committed, when a broker starts
    on `home`."""
    found = {}
    with serving(home, version) as broker:
        for name in NAMES:
            lines: Lines = broker.consume(name)
            assert all("error" not in line for line in lines["consumed"])
            found[name] = [(line["isolation"], line["offset"], line["key"], line["value"]) for line in lines["message"]]
    return found


def kill_points(home: Path, command: Callable[..., object]) -> list[int]:
    """Some operations between the journal and the last change of a name, the first and the last
    included, and those just after a transaction index got another name: without it a broker would
    serve aborted records."""
    env = FaultEnv(str(home))
    command(str(home), str(home), in_place=True, env=env)
    begin = max(at for at, (kind, path) in enumerate(env.log, 1) if kind == "sync" and path.endswith(LOCK_NAME))
    names = [at for at, (kind, _) in enumerate(env.log, 1) if kind in ("rename", "link") and at > begin]
    indexes = [at for at in names if TXN_INDEX_SUFFIX in env.log[at - 1][1]]
    assert indexes
    chosen = {names[number * (len(names) - 1) // (KILLS - 1)] for number in range(KILLS)}
    return sorted(at + 1 for at in chosen | {indexes[0], indexes[-1]})


@EACH_VERSION
@pytest.mark.parametrize("command", [recover, rebuild], ids=["recover", "rebuild"])
def test_a_broker_starts_on_what_a_kill_left(command: Callable[..., object], version: str, tmp_path: Path) -> None:
    """`recover` of a directory whose broker was halted, with torn ends; `rebuild` of one that was
    closed cleanly."""
    home = tmp_path / "home"
    write(home, version, "halt" if command is recover else "clean")
    if command is recover:
        for name in NAMES:
            last = max((home / name).glob("*.log"))
            last.write_bytes(last.read_bytes().rstrip(b"\0") + b"torn" * 9)
    shutil.copytree(home, tmp_path / "as-it-was")
    wanted = messages(tmp_path / "as-it-was", version)
    assert all(len(found) > 400 for found in wanted.values())
    shutil.copytree(home, tmp_path / "usual")
    for number, at in enumerate(kill_points(tmp_path / "usual", command)):
        left = tmp_path / f"left-{number}"
        shutil.copytree(home, left)
        env = FaultEnv(str(left), Fault(at))
        with pytest.raises(Killed):
            command(str(left), str(left), in_place=True, env=env)
        env.release()
        assert (left / LOCK_NAME).exists()
        assert messages(left, version) == wanted, f"killed at {at}"


@EACH_VERSION
def test_no_broker_starts_on_an_output_that_a_kill_left_before_the_second_run(version: str, tmp_path: Path) -> None:
    """An output lacks something until all is published, so that it must not be taken for whole: a
    broker refuses the staging folder in it. After the second run it serves everything."""
    home, output = tmp_path / "home", tmp_path / "out"
    write(home, version, "halt")
    recover(str(home), str(tmp_path / "usual"))
    wanted = messages(tmp_path / "usual", version)
    assert all(len(found) > 400 for found in wanted.values())
    counted = FaultEnv(str(tmp_path))
    recover(str(home), str(tmp_path / "counted"), env=counted)
    last = max(
        at for at, (kind, path) in enumerate(counted.log, 1) if kind == "rename" and path.endswith(CLEAN_SHUTDOWN)
    )
    env = FaultEnv(str(tmp_path), Fault(last))
    with pytest.raises(Killed):
        recover(str(home), str(output), env=env)
    env.release()
    assert (output / LOCK_NAME).exists()
    assert not (output / CLEAN_SHUTDOWN).exists()
    with pytest.raises(AssertionError, match=rf"Found directory .*{STAGING_PREFIX}"):
        messages(shutil.copytree(output, tmp_path / "tried"), version)
    recover(str(home), str(output))
    assert messages(output, version) == wanted


def log_points(home: Path, damaged: dict[str, Path]) -> dict[str, int]:
    """By partition, the operation of a recovery of `home` just behind the one that puts its damaged
    .log in place."""
    env = FaultEnv(str(home))
    recover(str(home), str(home), in_place=True, env=env)
    begin = max(at for at, (kind, path) in enumerate(env.log, 1) if kind == "sync" and path.endswith(LOCK_NAME))
    renames = [(at, path) for at, (kind, path) in enumerate(env.log, 1) if kind == "rename" and at > begin]
    return {
        name: max(at for at, renamed in renames if renamed.endswith(f"{name}/{path.name}")) + 1
        for name, path in damaged.items()
    }


@EACH_VERSION
def test_a_broker_starts_between_a_recovered_log_and_its_index(version: str, tmp_path: Path) -> None:
    """A batch in the middle of a log is damaged, so that the recovered .log is shorter, and the
    .index beside it is the one of before. Of a partition that the recovery had not come to, a
    broker cuts what lies behind the damage."""
    home = tmp_path / "home"
    write(home, version, "halt")
    damaged = damage(home)
    shutil.copytree(home, tmp_path / "usual")
    points = log_points(tmp_path / "usual", damaged)
    wanted = messages(tmp_path / "usual", version)
    assert all(len(found) > 400 for found in wanted.values())
    for last, at in points.items():
        left = tmp_path / f"left-{last}"
        shutil.copytree(home, left)
        env = FaultEnv(str(left), Fault(at))
        with pytest.raises(Killed):
            recover(str(left), str(left), in_place=True, env=env)
        env.release()
        found = messages(left, version)
        for name in (name for name in NAMES if points[name] <= at):
            missing = [row[:2] for row in wanted[name] if row not in found[name]]
            assert not missing, f"killed at {at}: {name} lacks {len(missing)}"


@EACH_VERSION
def test_a_broker_trusts_the_index_beside_a_recovered_log(version: str, tmp_path: Path) -> None:
    """The recovery point lies behind the damage, so that a broker derives no index there again, and
    cuts nothing where the recovery has not come to."""
    home = tmp_path / "home"
    write(home, version, "halt")
    damaged = damage(home)
    points = {TopicPartition("pp", number): offsets_of_logs(home / name)[-1] for number, name in enumerate(NAMES)}
    lines = [f"{at.topic} {at.partition} {offset}" for at, offset in points.items()]
    (home / RECOVERY_POINT_CHECKPOINT).write_bytes(format_checkpoint(lines))
    shutil.copytree(home, tmp_path / "usual")
    killed_at = log_points(tmp_path / "usual", damaged)
    first, second = sorted(NAMES, key=killed_at.__getitem__)
    left = tmp_path / "left"
    shutil.copytree(home, left)
    env = FaultEnv(str(left), Fault(killed_at[first]))
    with pytest.raises(Killed):
        recover(str(left), str(left), in_place=True, env=env)
    env.release()
    not_recovered = left / second / damaged[second].name
    before = not_recovered.read_bytes()
    with open_partition(tmp_path / "usual" / first) as snapshot:
        wanted = {record.offset for record in snapshot.scan(control=True)}
    asked = range(*offsets_of_logs(left / first)[1:3])
    assert len(wanted & set(asked)) < len(asked), "nothing was lost"
    with serving(left, version) as broker:
        lines_of = broker.consume(first, offsets=[*asked])
    assert all("error" not in line for line in lines_of["consumed"])
    control = {offset for offset in wanted if offset not in {line["offset"] for line in lines_of["message"]}}
    for line in lines_of["seek"]:
        right = min(offset for offset in wanted - control if offset >= line["query"])
        assert line.get("offset") == right, line
    assert not_recovered.read_bytes() == before


def offsets_of_logs(partition: Path) -> list[int]:
    """The base offsets of the segments."""
    return sorted(int(path.stem) for path in partition.glob("*.log"))


def damage(home: Path) -> dict[str, Path]:
    """Changes a bit of a batch in the middle of the second segment of each partition."""
    damaged = {name: sorted((home / name).glob("*.log"))[1] for name in NAMES}
    for path in damaged.values():
        raw = bytearray(path.read_bytes())
        raw[batch_ends(bytes(raw))[2] + 70] ^= 1
        path.write_bytes(raw)
    return damaged


def batch_ends(data: bytes) -> list[int]:
    """Where the batches of a log end."""
    ends = [0]
    while ends[-1] + 12 <= len(data) and any(data[ends[-1] + 8 : ends[-1] + 12]):
        ends.append(ends[-1] + 12 + int.from_bytes(data[ends[-1] + 8 : ends[-1] + 12], "big"))
    return ends[1:]
