"""Runs of a sink that are killed, or refused: two batches of a query, each committed again until it
is in."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from logdex.errors import LogdexError
from logdex.io.env import Env
from logdex.spark.sinks.commit import commit_batch
from logdex.spark.sinks.sink import Sink
from logdex.spark.sinks.staging import stage
from logdex.testing.fault_env import CHANGES, Fault, FaultEnv, Killed

QUERY = "8f4dfe0c-0000-4000-8000-000000000001"
NOW_MS = 1_700_000_000_000
Read = Callable[[Path], list[bytes]]


def commit(sink: Sink, number: int, rows: Sequence[pa.RecordBatch], env: Env, *, query: str = QUERY) -> bool:
    """Stages and commits a batch, one task per record batch."""
    env.make_dirs_durably(sink.directory)
    files = tuple(
        stage(sink.directory, query, number, sink.prepared(iter([each]), task, NOW_MS), env)[0]
        for task, each in enumerate(rows)
    )
    return commit_batch(sink.directory, lambda: sink.open(env), query, number, tuple(filter(None, files)), env)


def play(sink: Sink, batches: Sequence[Sequence[pa.RecordBatch]], env: Env, first: int = 0) -> int:
    """Commits the batches from number `first` on. Returns the number of the one at which it was
    killed, or of all."""
    for number in range(first, len(batches)):
        try:
            commit(sink, number, batches[number], env)
        except Killed:
            return number
    return len(batches)


def killed_at_each(
    tmp_path: Path,
    sink_at: Callable[[Path], Sink],
    batches: Sequence[Sequence[pa.RecordBatch]],
    read: Read,
    *,
    step: int,
    first: int = 1,
    power_cut: bool = False,
) -> int:
    """Kills a run at every `step`-th operation, and runs the batch again, with its rows in another
    order, as Spark may do. Every row is there once. Returns the number of kills."""
    expected = sorted(row for batch in batches for each in batch for row in each.column(0).to_pylist())
    kills, at = 0, first
    while True:
        root = tmp_path / f"at-{at}"
        root.mkdir()
        env = FaultEnv(str(root), Fault(at))
        reached = play(sink_at(root / "log"), batches, env)
        env.release()
        if reached == len(batches):
            assert sorted(read(root / "log")) == expected
            return kills
        kills += 1
        if power_cut:
            env.survivor(str(tmp_path / f"cut-{at}"), at)
            root = tmp_path / f"cut-{at}"
        again = [[each.take(pa.array(range(len(each))[::-1])) for each in reversed(batch)] for batch in batches]
        sink = sink_at(root / "log")
        assert play(sink, again, Env(), reached) == len(batches)
        assert sorted(read(root / "log")) == expected, f"killed at operation {at}"
        assert not commit(sink, len(batches) - 1, batches[-1], Env()), "a batch that is in is not put again"
        assert sorted(read(root / "log")) == expected
        assert [each.name for each in (root / "log").iterdir() if each.suffix == ".arrow"] == []
        at += step


def refused_at_each(
    tmp_path: Path,
    sink_at: Callable[[Path], Sink],
    batches: Sequence[Sequence[pa.RecordBatch]],
    read: Read,
    *,
    step: int,
    first: int = 1,
) -> int:
    """The disk is full at every `step`-th operation that changes it: an error, and the batch is run
    again. Every row is there once. Returns the number of errors."""
    expected = sorted(row for batch in batches for each in batch for row in each.column(0).to_pylist())
    errors, at = 0, first
    while True:
        root = tmp_path / f"full-{at}"
        root.mkdir()
        env, sink = FaultEnv(str(root), Fault(at, errno.ENOSPC, CHANGES)), sink_at(root / "log")
        for number, batch in enumerate(batches):
            try:
                commit(sink, number, batch, env)
            except LogdexError:
                errors += 1
                commit(sink, number, batch, Env())
        env.release()
        assert sorted(read(root / "log")) == expected, f"refused at operation {at}"
        assert [each.name for each in (root / "log").iterdir() if each.suffix == ".arrow"] == []
        if not env.hits:
            return errors
        at += step
