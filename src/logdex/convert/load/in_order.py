"""The rows of several Parquet files, so that the numbers of each queue or partition rise.

A first pass reads topics and numbers only, and notes for each piece of a file which least number it
has of each place. The second pass reads all files beside each other, always the one whose rows
ahead come first. Rows wait while a file has a smaller number of their place ahead. So files that
are sorted, as those of an export are, need little memory, however many there are.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logdex.convert.load.columns import numbers, place_rows
from logdex.convert.load.tables import Batch, TableFile
from logdex.errors import CorruptError, UsageError
from logdex.io.env import Env

WAITING_BYTES_MAX = 1 << 30
"""How much memory the rows take that wait for others."""
_READING_BYTES = 256 << 20
_OPEN_MAX = 64
_END = 1 << 63

Place = tuple[str, int]
"""A topic and the number of a queue or partition."""
Int64s = npt.NDArray[np.int64]
Convert = Callable[[pa.RecordBatch], pa.Table]
Done = Callable[[pa.RecordBatch, int], None]
"""Takes each batch that was read, and how many bytes of its file that were."""


@dataclass(frozen=True, slots=True)
class Order:
    """By which column the rows of a place are sorted; `place` is the column of its number. With
    `is_unique` a number that a place has twice is an error."""

    place: str
    column: str
    is_unique: bool


@dataclass(slots=True)
class PlaceRows:
    """Rows of one place with their numbers, which rise."""

    place: Place
    table: pa.Table
    numbers: Int64s


def rows_in_order(
    files: Sequence[TableFile], order: Order, convert: Convert, done: Done, env: Env
) -> Iterator[list[PlaceRows]]:
    """Yields the rows of some files, made by `convert` of those of one place, in the order of each
    place's numbers. Raises `UsageError` where a place has a number twice and must not, for negative
    numbers, and where too many rows would have to wait."""
    merge = _Merge(files, order, convert, env)
    try:
        while merge.ahead:
            done(*merge.read())
            if ready := merge.ready():
                yield ready
    finally:
        merge.close()


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Returns tables behind each other. Columns that some do not have are null there."""
    try:
        return pa.concat_tables(tables, promote_options="default")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UsageError(f"files have columns of different types: {error}", hint="cast them before") from error


@dataclass(slots=True)
class _Waiting:
    """Rows of one place in one file, sorted."""

    path: str
    table: pa.Table
    numbers: Int64s
    copied_rows: int
    """How many rows the memory has of which these are the last."""

    def take(self, limit: int) -> _Waiting:
        """Takes the rows whose numbers are less than `limit` away from these."""
        count = len(self.numbers) if limit == _END else int(np.searchsorted(self.numbers, limit))
        taken = _Waiting(self.path, self.table.slice(0, count), self.numbers[:count], count)
        self.table, self.numbers = self.table.slice(count), self.numbers[count:]
        if 2 * len(self.numbers) < self.copied_rows:  # else a few rows would keep the memory of many
            self.table, self.copied_rows = self.table.take(pa.array(np.arange(len(self.numbers)))), len(self.numbers)
        return taken


class _File:
    """A file while it is read: `row` is the next one, and `least` the place and number of the first
    of all rows ahead, in their order; None at the end."""

    def __init__(self, file: TableFile, order: Order, batch_bytes: int, env: Env) -> None:
        self.file = file
        self.row = self.position = 0
        self.batches: Iterator[Batch] | None = None
        self._ends: list[int] = []
        self._firsts: list[tuple[Place, int]] = []
        self._pieces: dict[Place, tuple[list[int], list[int]]] = {}
        columns = ("topic", order.place, order.column)
        for piece, batch in enumerate(file.batches(env, columns, batch_bytes=batch_bytes)):
            self._look(piece, batch, order)
        for _, least in self._pieces.values():
            least[:] = np.minimum.accumulate(least[::-1])[::-1].tolist()
        for piece in range(len(self._firsts) - 2, -1, -1):
            self._firsts[piece] = min(self._firsts[piece], self._firsts[piece + 1])

    def _look(self, piece: int, batch: Batch, order: Order) -> None:
        found, first = numbers(batch.rows, order.column), None
        assert found is not None
        for topic, number, rows in place_rows(batch.rows, order.place):
            place, least = (topic, number), int(found[rows].min())
            if least < 0:
                raise UsageError(f"{self.file.path}: the column {order.column} has {least}", hint="use 0 or more")
            pieces, leasts = self._pieces.setdefault(place, ([], []))
            pieces.append(piece)
            leasts.append(least)
            first = min(first or (place, least), (place, least))
        assert first is not None
        self._ends.append(batch.end)
        self._firsts.append(first)

    @property
    def places(self) -> list[Place]:
        """Of which places there are rows."""
        return list(self._pieces)

    @property
    def _piece(self) -> int:
        """The piece of the first pass in which the next row is."""
        return bisect_left(self._ends, self.row + 1)

    @property
    def least(self) -> tuple[Place, int] | None:
        """See the class. A row of the same piece that was read already can count, too."""
        return self._firsts[self._piece] if self._piece < len(self._firsts) else None

    def least_of(self, place: Place) -> int:
        """Returns the least number of a place that is ahead."""
        pieces, leasts = self._pieces[place]
        at = bisect_left(pieces, self._piece)
        return leasts[at] if at < len(leasts) else _END


class _Merge:
    """The files, and the rows that wait."""

    def __init__(self, files: Sequence[TableFile], order: Order, convert: Convert, env: Env) -> None:
        self._order = order
        self._convert = convert
        self._env = env
        self._batch_bytes = _READING_BYTES // min(max(len(files), 4), _READING_BYTES >> 10)
        self._files = [_File(file, order, self._batch_bytes, env) for file in files]
        self._of_place: dict[Place, list[_File]] = {}
        for file in self._files:
            for place in file.places:
                self._of_place.setdefault(place, []).append(file)
        self._waiting: dict[Place, list[_Waiting]] = {}
        self._open: OrderedDict[int, None] = OrderedDict()
        self.ahead = [(file.least, at) for at, file in enumerate(self._files) if file.least is not None]
        """The files that have rows ahead, as a heap: the next one is first."""
        heapq.heapify(self.ahead)

    def read(self) -> tuple[pa.RecordBatch, int]:
        """Reads the next rows; returns them and the bytes of the file that they took."""
        at = self.ahead[0][1]
        file = self._files[at]
        batch = next(self._batches(at), None)
        if batch is None:
            raise CorruptError("rows are missing: was it changed?", path=file.file.path, position=0)
        taken, file.position, file.row = batch.position - file.position, batch.position, batch.end
        self._add(file, batch.rows)
        if file.least is None:
            heapq.heappop(self.ahead)
            self._close(at)
        else:
            heapq.heapreplace(self.ahead, (file.least, at))
        return batch.rows, taken

    def _batches(self, at: int) -> Iterator[Batch]:
        """Returns the batches of a file from its next row on. Only some files are open at once."""
        file = self._files[at]
        if file.batches is None:
            file.batches = file.file.batches(self._env, first=file.row, batch_bytes=self._batch_bytes)
        self._open[at] = None
        self._open.move_to_end(at)
        if len(self._open) > _OPEN_MAX:
            self._close(next(iter(self._open)))
        return file.batches

    def _close(self, at: int) -> None:
        self._open.pop(at, None)
        self._files[at].batches = None  # a generator, which closes its file

    def close(self) -> None:
        """Closes all files."""
        for at in list(self._open):
            self._close(at)

    def _add(self, file: _File, batch: pa.RecordBatch) -> None:
        found = numbers(batch, self._order.column)
        assert found is not None
        for topic, number, rows in place_rows(batch, self._order.place):
            rows = rows[np.argsort(found[rows], kind="stable")]
            table = self._convert(batch.take(pa.array(rows)))
            self._waiting.setdefault((topic, number), []).append(
                _Waiting(file.file.path, table, found[rows], len(rows))
            )

    def ready(self) -> list[PlaceRows]:
        """Returns the rows that wait for no others."""
        found, waiting_bytes = [], 0
        for place in sorted(self._waiting):
            waiting = self._waiting[place]
            limit = min(file.least_of(place) for file in self._of_place[place])
            if min(int(each.numbers[0]) for each in waiting) < limit:
                taken = [each.take(limit) for each in waiting if each.numbers[0] < limit]
                found.append(self._joined(place, taken))
                self._waiting[place] = waiting = [each for each in waiting if len(each.numbers)]
            if not waiting:
                del self._waiting[place]
            waiting_bytes += sum(each.table.nbytes for each in waiting)
        if waiting_bytes > WAITING_BYTES_MAX:
            self._refuse()
        return found

    def _joined(self, place: Place, taken: list[_Waiting]) -> PlaceRows:
        table = joined([each.table for each in taken])
        found = np.concatenate([each.numbers for each in taken])
        if len(taken) > 1:
            order = np.argsort(found, kind="stable")
            table, found = table.take(pa.array(order)), found[order]
        twice = np.flatnonzero(np.diff(found) == 0)
        if self._order.is_unique and len(twice):
            number = int(found[twice[0]])
            paths = " and ".join(dict.fromkeys(each.path for each in taken if number in each.numbers))
            raise UsageError(
                f"{paths}: {place[0]}-{place[1]} has the {self._order.column} {number} twice",
                hint=f"leave one of the rows out, or the column {self._order.column}: rows are counted then",
            )
        return PlaceRows(place, table, found)

    def _refuse(self) -> None:
        """Raises `UsageError` for the file of which most rows wait."""
        sizes: dict[str, int] = {}
        for waiting in self._waiting.values():
            for each in waiting:
                sizes[each.path] = sizes.get(each.path, 0) + each.table.nbytes
        path = max(sizes, key=lambda each: sizes[each])
        place, column = self._order.place, self._order.column
        raise UsageError(
            f"{path}: more than {WAITING_BYTES_MAX >> 20} MiB of rows stand before rows with a smaller {column}",
            hint=f"sort the rows of each file by {place} and {column}",
        )


def rows_as_they_come(
    files: Sequence[TableFile], place_column: str, convert: Convert, done: Done, env: Env
) -> Iterator[list[PlaceRows]]:
    """Yields the rows of some files as they stand there, with numbers that count those of each
    place."""
    counts: dict[Place, int] = {}
    for file in files:
        position = 0
        for batch in file.batches(env):
            found = []
            for topic, number, rows in place_rows(batch.rows, place_column):
                first = counts.get((topic, number), 0)
                end = counts[topic, number] = first + len(rows)
                table = convert(batch.rows.take(pa.array(rows)))
                found.append(PlaceRows((topic, number), table, np.arange(first, end, dtype=np.int64)))
            done(batch.rows, batch.position - position)
            position = batch.position
            yield found
