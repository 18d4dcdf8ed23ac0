"""What a format says of its rows, so that all commands can print them in every way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from logdex.cli.rows.row_options import RowOptions
from logdex.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from logdex.arrow_text.cells import Parts

Row = TypeVar("Row")
Cell = bytes | str | int | None
"""What a letter of `--format` stands for. Bytes are shown as `--values` says."""
Pair = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class RowShape(Generic[Row]):
    """How rows of one kind are shown.

    `line` returns the parts of a line, but for the value. `to_json` returns the fields of JSON,
    named `fields`, with base64 for those of `contents`, which are bytes. The last of these is the
    value of a line. `pairs` returns the headers or properties, whose field is `pairs_field`; where
    `pairs_are_bytes`, their values are base64 there too. `letters` are those of `--format`.
    `decode` returns what a row of one of the broker's own topics means, None for others. The fields
    `numbers` are whole numbers, `flags` are true or false. `line_parts` returns the parts of the
    lines of Arrow rows, the value included, from `line_columns`. `words` returns parts of a pair
    that mean something alone, such as the keys of a message with several.
    """

    fields: tuple[str, ...]
    line: Callable[[Row], list[str]]
    to_json: Callable[[Row], dict[str, Any]]
    contents: Mapping[str, Callable[[Row], bytes | None]]
    pairs_field: str
    pairs: Callable[[Row], list[Pair]]
    pairs_are_bytes: bool
    letters: Mapping[str, Callable[[Row], Cell]]
    decode: Callable[[Row], dict[str, Any] | None]
    numbers: frozenset[str]
    flags: frozenset[str]
    line_parts: Callable[[pa.RecordBatch, RowOptions], Parts]
    line_columns: tuple[str, ...]
    words: Callable[[Row], Sequence[bytes]] = lambda _: ()

    @property
    def value_field(self) -> str:
        """The name of the field with the value or the body."""
        return [*self.contents][-1]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all fields that rows as JSON may have."""
        return (*self.fields, *(f"{name}_text" for name in self.contents))

    def require_field(self, name: str, known: Sequence[str]) -> None:
        """Raises `UsageError` unless a name is known, or is that of a header or property."""
        if name not in known and not name.startswith(f"{self.pairs_field}."):
            choices = f"{', '.join(known)}, {self.pairs_field}.NAME"
            raise UsageError(f"there is no field {name!r}", hint=f"choose from {choices}")

    def pair(self, row: Row, name: str) -> bytes | None:
        """Returns the first header or property of a row with a name."""
        return next((value for each, value in self.pairs(row) if each == name), None)
