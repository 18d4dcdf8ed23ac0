"""Staged rows: a task writes its rows as one Arrow file beside the journal, from which the driver
appends them, also after a crash."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pyarrow as pa

from logdex.errors import CorruptError, VanishedError
from logdex.io.env import Env, WriteFile
from logdex.spark.sinks.journal import JOURNAL_NAME

STAGED_SUFFIX = ".arrow"
BATCH_WRITE = "write"
"""Stands for the query in the name of a file of a batch write."""
_ID_DIGITS = 32
_KEPT_NS = 24 * 3600 * 1_000_000_000
_NAME = re.compile(re.escape(JOURNAL_NAME) + r"-([0-9a-zA-Z-]+)-(\d+)-([0-9a-f]{32})" + re.escape(STAGED_SUFFIX))


def stage(
    directory: str, query: str, batch: int, batches: Iterable[pa.RecordBatch], env: Env, *, write_id: str = ""
) -> tuple[str, int]:
    """Writes rows into a new file of a directory, durably but for its name. Returns the file's
    name, which no other attempt has, and the number of rows. Without rows there is no file, and the
    name is empty. By the id of the write, some hexadecimal digits, `remove_staged` finds the
    file."""
    name, path, rows = "", "", 0
    file: WriteFile | None = None
    writer: pa.RecordBatchFileWriter | None = None
    try:
        for each in batches:
            if not len(each):
                continue
            if writer is None:
                own = f"{write_id}{uuid.uuid4().hex}"[:_ID_DIGITS]
                name = f"{JOURNAL_NAME}-{query or BATCH_WRITE}-{batch}-{own}{STAGED_SUFFIX}"
                path = f"{directory}/{name}"
                file = env.open_write(path, exclusive=True)
                writer = pa.ipc.new_file(pa.PythonFile(_Output(file), mode="w"), each.schema)
            writer.write_batch(each)
            rows += len(each)
        if writer is not None and file is not None:
            writer.close()
            file.sync()
    except BaseException:
        if file is not None:
            file.close()
            env.remove(path)
        raise
    if file is not None:
        file.close()
    return name, rows


class _Output:
    """A file of an `Env` as a Python file for Arrow."""

    def __init__(self, file: WriteFile) -> None:
        self._file, self._at, self.closed = file, 0, False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._file.write_at(self._at, view)
        self._at += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        """Does nothing: `stage` syncs the file."""

    def close(self) -> None:
        """Does nothing: `stage` closes the file."""


def read_staged(directory: str, names: Sequence[str], env: Env) -> pa.Table:
    """Returns the rows of staged files, in their order. Raises `CorruptError` for a file that is
    not whole, and `VanishedError` for one that is gone."""
    tables = []
    for name in names:
        path = f"{directory}/{name}"
        try:
            with env.open_read(path) as file:
                data = file.read_at(0, file.size_bytes)
            tables.append(pa.ipc.open_file(pa.py_buffer(data)).read_all())
        except pa.ArrowInvalid as error:
            raise CorruptError(f"no whole staged file: {error}", path=path, position=0) from error
        except VanishedError as error:
            error.hint = "the rows of a batch that was not appended completely are lost with it"
            raise
    return pa.concat_tables(tables)


def remove_staged(directory: str, batch: int, write_id: str, kept: Collection[str], env: Env) -> None:
    """Removes what the tasks of one write have staged of a batch, but for the files that are
    kept: also what a task has staged that failed, or that Spark has killed."""
    for name in env.list_dir(directory):
        found = _NAME.fullmatch(name)
        if found is not None and int(found[2]) == batch and found[3].startswith(write_id) and name not in kept:
            env.remove(f"{directory}/{name}")


def sweep(directory: str, query: str, batch: int, now_ns: int, env: Env) -> None:
    """Removes the staged files of a query up to a batch, which nobody needs any more, and those of
    others that are older than a day."""
    for name in env.list_dir(directory):
        found = _NAME.fullmatch(name)
        if found is None:
            continue
        is_done = bool(query) and found[1] == query and int(found[2]) <= batch
        path = f"{directory}/{name}"
        try:
            if is_done or now_ns - env.modified_ns(path) > _KEPT_NS:
                env.remove(path)
        except VanishedError:
            continue
