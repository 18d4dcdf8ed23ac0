"""DuckDB over tables of logs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Self

import pyarrow as pa

from logdex.errors import LogdexError, UsageError
from logdex.frames.dataset import LogDataset
from logdex.frames.extras import require
from logdex.frames.tables import LogTables
from logdex.primitives.shown import repr_of
from logdex.primitives.wrong_questions import require_open

BATCH_ROWS = 10_000

_SETTINGS = {"autoinstall_known_extensions": "false", "python_enable_replacements": "false"}
"""A query downloads nothing, and a variable of Python is no table."""

_WITH_ROWS = {"SELECT", "EXPLAIN"}
"""The kinds of statements that return rows."""

_CANDIDATES_MAX = 8
"""How many functions a hint lists."""
_NO_TABLE = re.compile(r"Table with name \S+ does not exist")
_BARE_OFFSET = re.compile(r'(?<!")\boffset\b(?!")', re.IGNORECASE)


class SqlSession:
    """A connection of DuckDB with some tables. A context manager; one thread at a time. Times
    without a zone are UTC.

    A table shows the log as it was when the session first read that table, or first since
    `refresh`. `datasets` are the tables by name."""

    def __init__(self, tables: LogTables, opened: AbstractContextManager[object] | None = None) -> None:
        """`opened` is closed with the session. Raises `EnvironmentProblem` without DuckDB."""
        self._closed = False
        self._resources = ExitStack()
        if opened is not None:
            self._resources.enter_context(opened)
        try:
            duckdb = require("duckdb")
            self._error: type[Exception] = duckdb.Error
            self.tables = tables
            self.connection = duckdb.connect(":memory:", config=_SETTINGS)
            self._resources.callback(self.connection.close)
            self.connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
            self._register()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return repr_of(self, repr(self.tables.path), *self.datasets, is_closed=self._closed)

    def _register(self) -> None:
        self.datasets = {name: LogDataset(table) for name, table in self.tables.tables.items()}
        for name, dataset in self.datasets.items():
            self.connection.register(name, dataset)

    def refresh(self) -> None:
        """Lets the tables have what was written meanwhile. No result of an earlier query may be
        read on afterwards."""
        self.tables.refresh()
        self._register()

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """Runs a statement, or several of which the last one may be a SELECT, and yields its rows:
        at least one batch, which may be empty, unless the statement has no result. Raises
        `UsageError` for a statement that DuckDB refuses, for none, and for a SELECT whose rows
        another statement would hide; the error of a log that cannot be read; and `LogClosedError`
        after `close`."""
        require_open(self.tables.path, is_closed=self._closed)
        with self._errors(query):
            self._require_one_result(query)
            relation = self.connection.sql(query)
            if relation is None:
                return
            reader = relation.to_arrow_reader(BATCH_ROWS)
            count = 0
            for batch in reader:
                yield batch
                count += 1
            if not count:
                yield pa.RecordBatch.from_pylist([], schema=reader.schema)

    def _require_one_result(self, query: str) -> None:
        if not isinstance(query, str):
            raise UsageError(f"the query is {query!r}", hint="give a str")
        query.encode()  # raises an error for what is no text
        statements = self.connection.extract_statements(query)
        if not statements:
            raise UsageError("the query is empty", hint=f"SELECT count(*) FROM {next(iter(self.datasets))}")
        if any(each.type.name in _WITH_ROWS for each in statements[:-1]):
            raise UsageError("only the last statement may return rows", hint="ask them one by one")

    @contextmanager
    def _errors(self, query: str) -> Iterator[None]:
        """Raises DuckDB's errors as Logdex's. An error of a log has reached DuckDB as text only."""
        try:
            yield
        except (self._error, pa.ArrowException, OSError, UnicodeError) as error:
            problem = next((each.problem for each in self.datasets.values() if each.problem is not None), None)
            raise problem or _refused(error, query, self.datasets) from error

    def close(self) -> None:
        """Closes the connection and all files."""
        self._closed = True
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _refused(error: Exception, query: str, tables: Iterable[str]) -> LogdexError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    more = [line for line in lines[1:] if not line.startswith(("LINE ", "^"))]
    hint = more[0] if more else None
    if hint is not None and hint.endswith(":"):  # a list follows
        left = len(more) - 1 - _CANDIDATES_MAX
        hint = f"{hint} {'; '.join(more[1 : 1 + _CANDIDATES_MAX])}{f'; and {left} more' if left > 0 else ''}"
    if "length(BLOB)" in lines[0]:
        hint = "octet_length counts bytes"
    elif "syntax error" in lines[0] and _BARE_OFFSET.search(query):
        hint = 'offset is a word of SQL: write "offset" in double quotes'
    elif _NO_TABLE.search(lines[0]):
        hint = f"there are {', '.join(tables)}"
    return UsageError(lines[0], hint=hint)
