"""Prints many rows as JSON from Arrow batches, without a Python object per row."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from logdex.cli.rows.row_options import RowOptions
from logdex.jobs.tasks import in_order

if TYPE_CHECKING:
    import pyarrow as pa

SMALL_BYTES = 4 << 20
FEW_ROWS = 1_000
"""For less than these, loading Arrow and Numba would take longer than it saves."""

_PART_ROWS = 8_192
"""The text of so many rows is made by one thread, and held until it is printed."""


def is_bulk(options: RowOptions, limit: int | None, size_bytes: int) -> bool:
    """Whether rows are printed as a plain JSON object each, and there may be many of them in logs
    of `size_bytes`."""
    is_usual = options.values is None and options.columns is None and not options.decode
    is_large = size_bytes > SMALL_BYTES and (limit is None or limit > FEW_ROWS)
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return options.as_json and is_usual and is_large and encoding == "utf8" and hasattr(sys.stdout, "buffer")


def print_batches(reader: pa.RecordBatchReader, texts: Sequence[str], jobs: int) -> int:
    """Prints all rows as JSON lines, with the text of the columns `texts`. Their text is made in
    `jobs` threads. Returns how many there are."""
    from logdex.arrow_text.json_lines import JsonLines

    lines, rows = JsonLines(reader.schema, texts), 0
    sys.stdout.flush()
    for count, pieces in in_order("cat", lambda part: (part.num_rows, [*lines.lines(part)]), _parts(reader), jobs):
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        rows += count
    return rows


def _parts(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        for at in range(0, batch.num_rows, _PART_ROWS):
            yield batch.slice(at, _PART_ROWS)
