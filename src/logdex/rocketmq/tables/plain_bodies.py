"""A table of messages whose compressed bodies are decompressed as they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from logdex.errors import CorruptError
from logdex.frames.conditions import Conditions
from logdex.frames.tables import Readable
from logdex.rocketmq.columns.plain_bodies import NEEDED_COLUMNS, decompressed
from logdex.rocketmq.commit_log.commit_log import CommitLog

PROBLEMS_MAX = 100
"""How many bodies that cannot be decompressed are told one by one."""


class PlainBodies:
    """The rows of `source`, which are messages of `log`. A body that cannot be decompressed stays
    as it is stored, and its error is added to `problems` as text."""

    def __init__(self, source: Readable, log: CommitLog, problems: list[str]) -> None:
        self.schema = source.schema
        self._source = source
        self._log = log
        self._problems = problems

    def batches(self, columns: Sequence[str], conditions: Conditions) -> Iterator[pa.RecordBatch]:
        """Yields batches of some columns, and of those that decompression needs."""
        if "body" not in columns:
            yield from self._source.batches(columns, conditions)
            return
        for batch in self._source.batches([*dict.fromkeys((*columns, *NEEDED_COLUMNS))], conditions):
            yield from decompressed(batch, self._log.place_of, self._as_stored)

    def _as_stored(self, error: CorruptError, _offset: int, stored: bytes) -> bytes:
        text = str(error)
        if len(self._problems) < PROBLEMS_MAX and text not in self._problems:
            self._problems.append(text)
        return stored
