"""What every on-disk structure is stated with: fixed-size fields one behind the other, their positions and sizes.

A `Layout` refuses to be built when its fields do not add up to the size that is stated beside it, so a slip shows at
import. ``docs/formats`` repeats these tables for readers; a test compares the two.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, slots=True)
class Field:
    """One fixed-size field: `format` is a `struct` code without byte order; `offset` is in bytes from the start."""

    name: str
    format: str
    offset: int
    size_bytes: int


class Layout:
    """Big-endian fields one after the other, `size_bytes` in all.

    >>> Layout("pair", 12, ("a", "i"), ("b", "q")).offset_of("b")
    4
    """

    def __init__(self, name: str, size_bytes: int, *fields: tuple[str, str]) -> None:
        self.name = name
        self.struct = struct.Struct(">" + "".join(code for _, code in fields))
        if self.struct.size != size_bytes:
            raise ValueError(f"layout {name}: fields take {self.struct.size} bytes, stated are {size_bytes}")
        self.size_bytes = size_bytes
        placed, at = [], 0
        for field_name, code in fields:
            size = struct.calcsize(">" + code)
            placed.append(Field(field_name, code, at, size))
            at += size
        self.fields = tuple(placed)
        self._by_name = {field.name: field for field in self.fields}

    @cached_property
    def dtype(self) -> np.dtype[np.void]:
        """The type of an array of such structures, as stored."""
        return np.dtype([(field.name, f">{field.format}") for field in self.fields])

    def offset_of(self, name: str) -> int:
        """Byte offset of field `name` from the start of the structure."""
        return self._by_name[name].offset

    def pack(self, *values: int) -> bytes:
        """The bytes of the structure; values in field order."""
        return self.struct.pack(*values)
