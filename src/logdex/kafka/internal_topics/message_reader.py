"""Decodes the fields of Kafka's protocol messages, which are record values in internal topics.

Source: Kafka's protocol guide. Integers are big-endian, strings have an int16 length. From a
message's first "flexible" version on, strings have an unsigned varint of length + 1 instead, and
structures end with tagged fields.
"""

from __future__ import annotations

import uuid

_UVARINT_SIZE_BYTES_MAX = 5


class MessageReader:
    """Reads fields from `data` in order. Raises `ValueError` for a truncated or invalid field."""

    def __init__(self, data: bytes, *, flexible: bool = False) -> None:
        self._data = data
        self._at = 0
        self.flexible = flexible

    def _take(self, size_bytes: int) -> bytes:
        if size_bytes < 0 or size_bytes > len(self._data) - self._at:
            raise ValueError(
                f"byte {self._at}: {size_bytes} bytes are stated, but {len(self._data) - self._at} are left"
            )
        self._at += size_bytes
        return self._data[self._at - size_bytes : self._at]

    def rest(self) -> bytes:
        """Reads all bytes that are left."""
        return self._take(len(self._data) - self._at)

    def integer(self, size_bytes: int) -> int:
        """Reads a signed integer."""
        return int.from_bytes(self._take(size_bytes), "big", signed=True)

    def unsigned_varint(self) -> int:
        """Reads an unsigned varint of 32 bits."""
        value = 0
        for place in range(_UVARINT_SIZE_BYTES_MAX):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return value
        raise ValueError(f"byte {self._at}: a varint does not end")

    def string(self) -> str | None:
        """Reads a string, None for null. Bytes that are not UTF-8 are escaped."""
        size_bytes = self.unsigned_varint() - 1 if self.flexible else self.integer(2)
        return None if size_bytes == -1 else self._take(size_bytes).decode("utf-8", "backslashreplace")

    def text(self) -> str:
        """Reads a string that cannot be null."""
        value = self.string()
        if value is None:
            raise ValueError(f"byte {self._at}: null instead of a string")
        return value

    def nullable_array_size(self) -> int | None:
        """Reads the number of elements that follow, None for a null array; each element has at
        least one byte."""
        count = self.unsigned_varint() - 1 if self.flexible else self.integer(4)
        if not -1 <= count <= len(self._data) - self._at:
            raise ValueError(
                f"byte {self._at}: {count} elements are stated, but {len(self._data) - self._at} bytes are left"
            )
        return None if count == -1 else count

    def array_size(self) -> int:
        """Reads the number of elements that follow, 0 for a null array."""
        return self.nullable_array_size() or 0

    def byte_string(self) -> bytes | None:
        """Reads a field of bytes, None for null."""
        size_bytes = self.unsigned_varint() - 1 if self.flexible else self.integer(4)
        return None if size_bytes == -1 else self._take(size_bytes)

    def uuid(self) -> uuid.UUID:
        """Reads a UUID."""
        return uuid.UUID(bytes=self._take(16))

    def tagged_fields(self) -> list[tuple[int, bytes]]:
        """Reads the tagged fields at the end of a structure, as (tag, bytes); none before the first
        flexible version."""
        count = self.unsigned_varint() if self.flexible else 0
        return [(self.unsigned_varint(), self._take(self.unsigned_varint())) for _ in range(count)]
