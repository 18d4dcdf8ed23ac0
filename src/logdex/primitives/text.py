"""Conversion between text and the bytes that are stored on disk."""

from __future__ import annotations

from logdex.errors import UsageError


def to_bytes(text: bytes | str) -> bytes:
    """Returns `text` in UTF-8, and bytes unchanged. Raises `UsageError` for anything else."""
    if isinstance(text, bytes):
        return text
    try:
        return text.encode("utf-8", "surrogateescape")
    except AttributeError:
        raise UsageError(f"{text!r} is neither text nor bytes", hint="give a str or bytes") from None
    except UnicodeEncodeError as error:
        odd = text[error.start]
        raise UsageError(f"the text has {odd!r}, which UTF-8 cannot hold", hint="give its bytes") from None


def utf8_or_none(data: bytes | None) -> str | None:
    """Returns bytes as text if they are UTF-8."""
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        return None
