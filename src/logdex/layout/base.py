"""Describes on-disk structures: consecutive fixed-size fields with their positions and sizes.

A `Layout` raises at import if its fields do not add up to its stated size. ``docs/formats`` repeats
these tables for readers; a test compares the two.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, slots=True)
class Field:
    """One fixed-size field. `format` is a `struct` code without byte order, `offset` is in bytes
    from the start."""

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
        """The dtype of an array of such structures, as stored."""
        return np.dtype([(field.name, f">{field.format}") for field in self.fields])

    def offset_of(self, name: str) -> int:
        """The byte offset of field `name` from the start of the structure."""
        return self._by_name[name].offset

    def part(self, first: str, last: str) -> struct.Struct:
        """The struct of the fields from `first` to `last`."""
        names = list(self._by_name)
        chosen = self.fields[names.index(first) : names.index(last) + 1]
        return struct.Struct(">" + "".join(field.format for field in chosen))

    def pack(self, *values: int) -> bytes:
        """The bytes of the structure, from its values in field order."""
        return self.struct.pack(*values)
