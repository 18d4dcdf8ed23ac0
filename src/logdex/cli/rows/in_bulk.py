"""Prints many rows from Arrow batches, without a Python object per row."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

from logdex.cli.rows.row_options import RowOptions, Values
from logdex.cli.rows.shape import RowShape
from logdex.jobs.tasks import in_order

if TYPE_CHECKING:
    import pyarrow as pa

    from logdex.arrow_text.cells import Rooms
    from logdex.frames.scan_frames import ScanFrames

    LinesOf = Callable[[pa.RecordBatch], memoryview]
    Prepare = Callable[[pa.RecordBatch], Iterable[pa.RecordBatch]]

_USUAL_VALUES = {True: (None,), False: (None, Values.TEXT, Values.NONE)}
"""The values of ``--values`` that are printed in bulk, as JSON or as text."""

SMALL_BYTES = 4 << 20
FEW_ROWS = 1_000
"""For less than these, loading Arrow and Numba would take longer than it saves."""

_PART_ROWS = 8_192
"""The text of so many rows is made by one thread, and held until it is printed."""


def is_bulk(options: RowOptions, limit: int | None, size_bytes: int) -> bool:
    """Whether rows are printed as plain lines or JSON objects, and there may be many of them in
    logs of `size_bytes`."""
    is_usual = options.values in _USUAL_VALUES[options.as_json] and not options.decode
    is_usual &= options.columns is None and options.template is None
    is_large = size_bytes > SMALL_BYTES and (limit is None or limit > FEW_ROWS)
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return is_usual and is_large and encoding == "utf8" and hasattr(sys.stdout, "buffer")


def print_batches(
    scan: ScanFrames, shape: RowShape[Any], options: RowOptions, jobs: int, prepare: Prepare | None = None
) -> int:
    """Prints all rows of a scan, as `texts_of` makes their text. Returns how many there are."""
    texts, rows = texts_of(scan, shape, options, jobs, prepare), 0
    sys.stdout.flush()
    with _whole_writes() as write:
        for count, text in texts:
            write(text)
            rows += count
    return rows


def texts_of(
    scan: ScanFrames, shape: RowShape[Any], options: RowOptions, jobs: int, prepare: Prepare | None = None
) -> Iterator[tuple[int, memoryview]]:
    """Yields the text of all rows of a scan, whose batches `prepare` may change and divide, in
    parts: how many rows, and their text, which is overwritten when the next part has been asked
    for. It is made in `jobs` threads."""
    from logdex.arrow_text.cells import Rooms

    rooms = Rooms()
    lines_of, columns = _json_lines(scan, shape, rooms) if options.as_json else _text_lines(shape, options, rooms)
    reader = scan.arrow_reader(columns)
    batches = reader if prepare is None else chain.from_iterable(map(prepare, reader))
    for count, text in in_order("cat", lambda part: (part.num_rows, lines_of(part)), _parts(batches), jobs):
        yield count, text
        rooms.give_back(text)


@contextmanager
def _whole_writes() -> Iterator[Callable[[memoryview], object]]:
    """Writes to stdout during a block. If Python does not buffer it (-u), one write of the system
    may take a part only."""
    if isinstance(sys.stdout.buffer, io.BufferedIOBase):
        yield sys.stdout.buffer.write
        return
    buffer = io.BufferedWriter(sys.stdout.buffer)
    try:
        yield buffer.write
    finally:
        buffer.detach()  # after a flush


def _json_lines(scan: ScanFrames, shape: RowShape[Any], rooms: Rooms) -> tuple[LinesOf, None]:
    from logdex.arrow_text.json_lines import JsonLines

    lines = JsonLines(scan.schema, tuple(shape.contents))
    return lambda batch: lines.lines(batch, rooms), None


def _text_lines(shape: RowShape[Any], options: RowOptions, rooms: Rooms) -> tuple[LinesOf, Sequence[str]]:
    from logdex.arrow_text.cells import lines

    return lambda batch: lines(batch, lambda part: shape.line_parts(part, options), "\n", rooms), shape.line_columns


def _parts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for at in range(0, batch.num_rows, _PART_ROWS):
            yield batch.slice(at, _PART_ROWS)
