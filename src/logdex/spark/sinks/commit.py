"""Appending a batch exactly once.

1. Tasks stage the rows of a batch as files, which are on disk before the driver hears of them.
2. The driver opens the logs, which takes their lock. It writes into the journal which files make up
   the batch and where the logs end. From then on the batch is decided: it is these files.
3. It appends the rows and syncs the logs.
4. It writes into the journal that the batch is appended, and removes the files.

After a kill before step 2 the batch is as if it had never been; Spark stages it again. After a kill
in step 3 the next commit, of whatever batch, finishes it first: it compares the logs behind their
former ends with the staged rows and appends those that are missing. What others may have appended
meanwhile stays, because nothing is cut off. A batch that the journal has as appended is skipped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

import pyarrow as pa

from logdex.errors import LogdexError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.spark.sinks.journal import Pending, SinkJournal
from logdex.spark.sinks.staging import read_staged, sweep


class Destination(Protocol):
    """Open logs, with their lock held."""

    def ends(self, rows: pa.Table) -> dict[str, int]:
        """Returns where each log that some rows go to ends, by the log's name, once all before that
        is on disk."""

    def missing(self, rows: pa.Table, ends: Mapping[str, int]) -> pa.Table:
        """Returns those of some rows that are not in the logs behind their former `ends`, where the
        first of them may be."""

    def append(self, rows: pa.Table) -> None:
        """Appends rows, and syncs the logs."""


Opener = Callable[[], AbstractContextManager[Destination]]


def commit_batch(
    directory: str, open_logs: Opener, query: str, batch: int, files: tuple[str, ...], env: Env = DEFAULT_ENV
) -> bool:
    """Appends a batch of a query whose rows are staged in files of a directory; an empty query
    stands for a batch write. Returns False if the batch was appended before.

    Raises what appending raises; the batch can be committed again then.
    """
    with open_logs() as logs:
        journal = SinkJournal.read(directory, env)
        if journal.pending is not None:
            _finish(directory, logs, journal, env)
        is_new = not query or batch > journal.committed.get(query, -1)
        if is_new and files:
            rows = read_staged(directory, files, env)
            journal.pending = Pending(query, batch, files, logs.ends(rows))
            journal.write(directory, env)
            _append(directory, logs, journal, rows, rows, env)
        sweep(directory, query, batch, time.time_ns(), env)
        return is_new


def _finish(directory: str, logs: Destination, journal: SinkJournal, env: Env) -> None:
    """Appends what is missing of the batch that a killed commit had begun."""
    assert journal.pending is not None
    rows = read_staged(directory, journal.pending.files, env)
    _append(directory, logs, journal, rows, logs.missing(rows, journal.pending.ends), env)


def _append(
    directory: str, logs: Destination, journal: SinkJournal, rows: pa.Table, missing: pa.Table, env: Env
) -> None:
    pending = journal.pending
    assert pending is not None
    try:
        logs.append(missing)
    except LogdexError:
        if len(logs.missing(rows, pending.ends)) == len(rows):  # refused as a whole: nothing is decided
            journal.pending = None
            journal.write(directory, env)
        raise
    if pending.query:
        journal.committed[pending.query] = max(pending.batch, journal.committed.get(pending.query, -1))
    journal.pending = None
    journal.write(directory, env)
    for name in pending.files:
        env.remove(f"{directory}/{name}")
