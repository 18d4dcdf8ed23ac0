"""Prints rows."""

from __future__ import annotations

import sys
from typing import Any, Generic

from logdex.cli.output import emit_json
from logdex.cli.rows.row_filter import RowFilter
from logdex.cli.rows.row_options import RowOptions
from logdex.cli.rows.row_text import renderer
from logdex.cli.rows.shape import Row, RowShape

END_OF = "end_of"
"""The field that marks the last object of a command's JSON lines, which is no row."""


def print_end(options: RowOptions, command: str, **facts: Any) -> None:
    """Prints, behind rows as JSON, what programs need to know of a whole answer."""
    if options.as_json:
        emit_json({END_OF: command, **facts})


class RowPrinter(Generic[Row]):
    """Prints rows of one shape as the options say: those that pass the filter, and at most
    `limit`."""

    def __init__(
        self, shape: RowShape[Row], options: RowOptions, wanted: RowFilter[Row] | None = None, limit: int | None = None
    ) -> None:
        self.options = options
        self.wanted = wanted or RowFilter(shape, None, None)
        self.limit = limit
        self.printed = 0
        self._text = renderer(shape, options)

    @property
    def is_done(self) -> bool:
        """Whether `limit` rows are printed."""
        return self.limit is not None and self.printed >= self.limit

    @property
    def scan_limit(self) -> int | None:
        """How many rows there are to read at most, None if that is not known."""
        return None if self.limit is None or self.wanted else self.limit - self.printed

    def print(self, row: Row) -> bool:
        """Prints one row if it is wanted. Returns whether more may be."""
        if not self.is_done and self.wanted.passes(row):
            sys.stdout.write(self._text(row))
            self.printed += 1
        return not self.is_done
