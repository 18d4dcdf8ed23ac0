"""Java's `String.hashCode`, over the UTF-16 code units of the text that the broker decodes."""

from __future__ import annotations

import sys

_REPLACEMENT = "\ufffd"
_UTF_16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"


def decode_utf8(data: bytes) -> str:
    """`new String(data, UTF_8)`: decodes as Java does, even where the bytes are not valid UTF-8.

    Python and Java agree on valid bytes. For an encoded surrogate (3 bytes) Java writes one U+FFFD,
    Python three. Both replace every other maximal ill-formed part by one U+FFFD.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _decode_malformed(data)


def _decode_malformed(data: bytes) -> str:
    out, at = [], 0
    while at < len(data):
        try:
            out.append(data[at:].decode("utf-8"))
            break
        except UnicodeDecodeError as error:
            good, bad = at + error.start, data[at + error.start : at + error.start + 3]
            out.append(data[at:good].decode("utf-8"))
            out.append(_REPLACEMENT)
            surrogate = len(bad) == 3 and bad[0] == 0xED and bad[1] & 0xE0 == 0xA0 and bad[2] & 0xC0 == 0x80
            at = good + 3 if surrogate else at + error.end
    return "".join(out)


def java_hash_text(text: str, seed: int = 0) -> int:
    """The signed 32-bit `String.hashCode` of `text`. `seed` is the hash of the text before it."""
    units = text.encode() if text.isascii() else memoryview(text.encode(_UTF_16, "surrogatepass")).cast("H")
    return _hash_units(units, seed)


def _hash_units(units: bytes | memoryview, seed: int) -> int:
    value = seed & 0xFFFFFFFF
    for unit in units:
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def java_hash(data: bytes, seed: int = 0) -> int:
    """The signed 32-bit `String.hashCode` of the text that the broker decodes from `data`."""
    if not data.isascii():
        return java_hash_text(decode_utf8(data), seed)
    return _hash_units(data, seed)


def index_key_hash(data: bytes, seed: int = 0) -> int:
    """`IndexFile.indexKeyHashMethod`: the hash's absolute value, 0 to 2^31 - 1.

    It is 0 for -2^31, which has no absolute value in 32 bits.
    """
    value = abs(java_hash(data, seed))
    return 0 if value == 1 << 31 else value
