"""One split of a read plan: a value that can be sent to another process and read there."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from logdex.errors import CorruptError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.rocketmq.commit_log.commit_log import CommitLogFile
from logdex.rocketmq.commit_log.log_end import LogEnd
from logdex.rocketmq.read.read_filter import ReadFilter
from logdex.rocketmq.settings.store_config import StoreConfig

if TYPE_CHECKING:
    import pyarrow as pa

    from logdex.rocketmq.read.parts.part_reader import PartReader, Rows

OnDamage = Callable[[CorruptError], None]
OnTrimmed = Callable[[str], None]


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

    def to_batches(
        self, *, env: Env = DEFAULT_ENV, on_damage: OnDamage | None = None, on_trimmed: OnTrimmed | None = None
    ) -> Generator[pa.RecordBatch, None, LogEnd | None]:
        """Yields the messages in log order, as record batches of the columns. None is empty.

        A split ends before the first message that is not whole, as the log does. With `on_damage`,
        that is called with an error for each damage, and reading goes on behind it, as for `verify`
        and `recover` (`logdex.rocketmq.scan.resume`). Returns where and why the split ended: at
        zeros after the last message, or at damage; None if the log continues. Damage in messages
        that the filter does not require to read is not found. `on_trimmed` is called with the path
        of a file that a broker has removed meanwhile.
        """
        from logdex.rocketmq.columns.message_columns import make_batches
        from logdex.rocketmq.read.parts.behind_damage import error_of, position_behind

        part = self
        while True:
            ends: list[LogEnd | None] = []
            with closing(part.reader(env)) as reader:
                yield from make_batches(part._noting(reader, ends), reader.scanner.table, part.columns)
            if on_trimmed is not None:
                for path in reader.trimmed:
                    on_trimmed(path)
            end = ends[0]
            if on_damage is None or end is None or end.is_clean:
                return end
            following = position_behind(part.file, end, part.store, part.config, env)
            error = error_of(end)
            error.end_position = part.file.size_bytes if following is None else following
            on_damage(error)
            if following is None or following >= part.end:
                return None
            part = replace(part, begin=following)

    def damage_at(self, end: LogEnd | None, sure_end: int) -> CorruptError | None:
        """Returns the damage at which `to_batches` ended, given what that returned, if there is
        any. Up to the physical offset `sure_end`, messages were known to be."""
        from logdex.rocketmq.read.parts.behind_damage import error_of

        if end is None or end.offset >= min(self.file.start_offset + self.end, sure_end):
            return None
        error = error_of(end)
        error.end_position = self.end
        return error

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
