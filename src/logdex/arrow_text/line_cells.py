"""Columns of Arrow as the parts of a line for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from logdex.arrow_text.cells import (
    Cells,
    address_of,
    dictionary_cells,
    elements_of,
    join,
    list_cells,
    literal,
    offsets_of,
    valid_of,
)
from logdex.kernels.common import line_text as kernels
from logdex.kernels.common.cells import Int64s

_NO_BOUND = 1 << 62


def shown_cells(array: pa.Array, *, prefix: str = "", null: str = "", chars_max: int | None = None) -> Cells:
    """Returns text without control characters behind `prefix`, and `null` alone where there is
    none. Of text with more than `chars_max` characters, the last one that is shown is ``…``."""
    if pa.types.is_dictionary(array.type):
        return dictionary_cells(array, lambda texts: shown_cells(texts, prefix=prefix, chars_max=chars_max))
    offsets, ends = offsets_of(array), np.empty(len(array), np.int64)
    before, none = literal(prefix), literal(null)
    size = kernels.SHOWN_MAX * int(offsets[-1] - offsets[0])
    if chars_max is not None:
        size = min(size, kernels.SHOWN_MAX * (chars_max + kernels.SHOWN_MAX) * len(array))
    out = np.empty(size + (len(before) + len(none) + kernels.ELLIPSIS_SIZE) * max(len(array), 1), np.uint8)
    kernels.shown_cells(
        address_of(array),
        offsets,
        valid_of(array),
        _NO_BOUND if chars_max is None else chars_max,
        before.ctypes.data,
        len(before),
        none.ctypes.data,
        len(none),
        out.ctypes.data,
        ends,
    )
    return Cells(out, ends)


def shown_list_cells(array: pa.Array, prefix: str, separator: str) -> Cells:
    """Returns lists of texts behind `prefix`; nothing for an empty list."""
    texts = shown_cells(elements_of(array, array.values))
    return list_cells(array, texts, (prefix, separator, ""), empty_is_nothing=True)


def shown_pair_cells(array: pa.Array, around: tuple[str, str, str], null: str) -> Cells:
    """Returns lists of pairs, a name and a value, of which each is between the texts `around`."""
    names, values = elements_of(array, array.values).flatten()
    pairs = join(around, [shown_cells(names), shown_cells(values, null=null)], len(names))
    return list_cells(array, pairs, ("", "", ""), empty_is_nothing=True)


def time_cells(array: pa.Array, *, negative_is_none: bool = False) -> Cells:
    """Returns milliseconds since the epoch as ISO 8601 in UTC."""
    out, ends = np.empty(kernels.TIME_SIZE * max(len(array), 1), np.uint8), np.empty(len(array), np.int64)
    kernels.time_cells(np.ascontiguousarray(array.to_numpy()), int(negative_is_none), out.ctypes.data, ends)
    return Cells(out, ends)


def choice_cells(texts: Sequence[str], numbers: Int64s) -> Cells:
    """Returns for each row the text with its number."""
    ends = np.cumsum([len(text.encode()) for text in texts], dtype=np.int64)
    return Cells(np.frombuffer("".join(texts).encode() or b" ", np.uint8), ends, numbers)
