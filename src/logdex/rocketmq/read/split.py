"""One split of a read plan: a value that can be sent to another process and read there."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logdex.io.env import DEFAULT_ENV, Env
from logdex.rocketmq.commit_log.commit_log import CommitLogFile
from logdex.rocketmq.commit_log.log_end import LogEnd
from logdex.rocketmq.read.read_filter import ReadFilter
from logdex.rocketmq.settings.store_config import StoreConfig

if TYPE_CHECKING:
    import pyarrow as pa

    from logdex.rocketmq.read.parts.part_reader import PartReader, Rows


@dataclass(frozen=True, slots=True)
class ReadSplit:
    """The messages that begin in bytes [`begin`, `end`) of a CommitLog file, where a message or the
    file begins at `begin`; or, with `runs`, those at these physical offsets, each with its size in
    bytes. Those that pass the filter are read, with the requested columns (None: all). `store` is
    the directory whose ConsumeQueues may be used, or None to scan. It can be pickled, and shared
    between threads."""

    store: str | None
    file: CommitLogFile
    begin: int
    end: int
    filter: ReadFilter
    columns: tuple[str, ...] | None
    config: StoreConfig
    runs: tuple[tuple[int, int], ...] | None = None

    @property
    def size_bytes(self) -> int:
        """The number of bytes of the part. Far fewer may be read."""
        return self.end - self.begin if self.runs is None else sum(size for _, size in self.runs)

    @property
    def schema(self) -> pa.Schema:
        """Returns the schema of the batches."""
        from logdex.rocketmq.columns.message_columns import schema_of

        return schema_of(self.columns)

    def to_batches(self, *, env: Env = DEFAULT_ENV) -> Generator[pa.RecordBatch, None, LogEnd | None]:
        """Yields the messages in log order, as record batches of the columns. None is empty.

        A split ends before the first message that is not whole, as the log does. Returns where and
        why it ended: at zeros after the last message, or at damage; None if the log continues.
        Damage in messages that the filter does not require to read is not found.
        """
        from logdex.rocketmq.columns.message_columns import make_batches

        ends: list[LogEnd | None] = []
        with closing(self.reader(env)) as reader:
            yield from make_batches(self._noting(reader, ends), reader.scanner.table, self.columns)
        return ends[0]

    def _noting(self, reader: PartReader, ends: list[LogEnd | None]) -> Iterator[Rows]:
        ends.append((yield from self.windows(reader)))

    def reader(self, env: Env = DEFAULT_ENV) -> PartReader:
        """Returns a reader for this split and for later ones of the same plan."""
        from logdex.rocketmq.read.parts.part_reader import PartReader

        bodies = self.columns is None or "body" in self.columns
        return PartReader(self.store, self.config, self.filter, env, bodies=bodies)

    def windows(self, reader: PartReader) -> Generator[Rows, None, LogEnd | None]:
        """Yields windows of messages with the places of the wanted ones. Returns what `to_batches`
        returns."""
        if self.runs is not None:
            yield from reader.pick(self.file, self.runs)
            return None
        return (yield from reader.read(self.file, self.begin, self.end))
