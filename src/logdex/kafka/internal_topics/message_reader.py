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

    def array_size(self) -> int:
        """Reads the number of elements that follow; each has at least one byte."""
        count = self.unsigned_varint() - 1 if self.flexible else self.integer(4)
        if not -1 <= count <= len(self._data) - self._at:
            raise ValueError(
                f"byte {self._at}: {count} elements are stated, but {len(self._data) - self._at} bytes are left"
            )
        return max(count, 0)

    def skip_bytes(self) -> None:
        """Skips a field of bytes."""
        self._take(max(self.unsigned_varint() - 1 if self.flexible else self.integer(4), 0))

    def uuid(self) -> uuid.UUID:
        """Reads a UUID."""
        return uuid.UUID(bytes=self._take(16))

    def skip_tagged_fields(self) -> None:
        """Skips the tagged fields at the end of a structure of a flexible version."""
        if self.flexible:
            for _ in range(self.unsigned_varint()):
                self.unsigned_varint()
                self._take(self.unsigned_varint())
