"""Text that callers give where the disk has bytes."""

from __future__ import annotations


def to_bytes(text: bytes | str) -> bytes:
    """UTF-8; bytes stay what they are."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
