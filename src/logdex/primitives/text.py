"""Conversion of text from callers to the bytes that are stored on disk."""

from __future__ import annotations


def to_bytes(text: bytes | str) -> bytes:
    """`text` in UTF-8. Bytes are returned unchanged."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
