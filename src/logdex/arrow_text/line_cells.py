"""Columns of Arrow as the parts of a line for a terminal."""

from __future__ import annotations

import pyarrow as pa

from logdex.arrow_text.cells import (
    Cells,
    Texts,
    bytes_cells,
    dictionary_cells,
    elements_of,
    join,
    list_cells,
    number_cells,
    offsets_of,
)
from logdex.kernels.common import cells as kernels
from logdex.kernels.common.digits import TIME_SIZE
from logdex.kernels.common.line_text import ELLIPSIS_SIZE, SHOWN_MAX
from logdex.kernels.common.rows import NEGATIVE_IS_NULL, PLAIN

_NO_BOUND = 1 << 62


def shown_cells(array: pa.Array, *, prefix: str = "", null: str = "", chars_max: int | None = None) -> Cells:
    """Returns text without control characters behind `prefix`, and `null` alone where there is
    none. Of text with more than `chars_max` characters, the last one that is shown is ``…``."""
    if pa.types.is_dictionary(array.type):
        return dictionary_cells(array, lambda texts: shown_cells(texts, prefix=prefix, chars_max=chars_max))
    offsets = offsets_of(array)
    room = SHOWN_MAX * int(offsets[-1] - offsets[0])
    if chars_max is not None:
        room = min(room, SHOWN_MAX * (chars_max + SHOWN_MAX) * len(array))
    room += ELLIPSIS_SIZE * len(array)
    option = _NO_BOUND if chars_max is None else chars_max
    return bytes_cells(kernels.SHOWN, array, room, before=prefix, null=null, option=option)


def shown_list_cells(array: pa.Array, prefix: str, separator: str) -> Cells:
    """Returns lists of texts behind `prefix`; nothing for an empty list."""

    def texts() -> Texts:
        elements = elements_of(array, array.values)
        return join(("", ""), [shown_cells(elements)], len(elements))

    return list_cells(array, texts, (prefix, separator, ""), empty_is_nothing=True)


def shown_pair_cells(array: pa.Array, around: tuple[str, str, str], null: str) -> Cells:
    """Returns lists of pairs, a name and a value, of which each is between the texts `around`."""

    def pairs() -> Texts:
        names, values = elements_of(array, array.values).flatten()
        return join(around, [shown_cells(names), shown_cells(values, null=null)], len(names))

    return list_cells(array, pairs, ("", "", ""), empty_is_nothing=True)


def time_cells(array: pa.Array, *, negative_is_none: bool = False) -> Cells:
    """Returns milliseconds since the epoch as ISO 8601 in UTC."""
    option = NEGATIVE_IS_NULL if negative_is_none else PLAIN
    return number_cells(kernels.TIME, array, TIME_SIZE * len(array), option, null="-")
