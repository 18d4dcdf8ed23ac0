"""Prints many rows as JSON from Arrow batches, without a Python object per row."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from logdex.cli.rows.row_options import RowOptions

if TYPE_CHECKING:
    import pyarrow as pa

SMALL_BYTES = 4 << 20
FEW_ROWS = 1_000
"""For less than these, loading Arrow and Numba would take longer than it saves."""


def is_bulk(options: RowOptions, limit: int | None, size_bytes: int) -> bool:
    """Whether rows are printed as a plain JSON object each, and there may be many of them in logs
    of `size_bytes`."""
    is_usual = options.values is None and options.columns is None and not options.decode
    is_large = size_bytes > SMALL_BYTES and (limit is None or limit > FEW_ROWS)
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return options.as_json and is_usual and is_large and encoding == "utf8" and hasattr(sys.stdout, "buffer")


def print_batches(reader: pa.RecordBatchReader, texts: Sequence[str]) -> int:
    """Prints all rows as JSON lines, with the text of the columns `texts`. Returns how many."""
    from logdex.arrow_text.json_lines import JsonLines

    lines, rows = JsonLines(reader.schema, texts), 0
    sys.stdout.flush()
    for batch in reader:
        for piece in lines.lines(batch):
            sys.stdout.buffer.write(piece)
        rows += batch.num_rows
    return rows
