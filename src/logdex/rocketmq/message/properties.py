"""A message's properties: `name U+0001 value U+0002` pairs, parsed as by the broker.

Source: ``docs/formats/message.md``; MessageDecoder.string2messageProperties.
"""

from __future__ import annotations

from collections.abc import Iterable

NAME_VALUE_SEPARATOR = b"\x01"
PROPERTY_SEPARATOR = b"\x02"
KEY_SEPARATOR = b" "

KEYS = b"KEYS"
TAGS = b"TAGS"
UNIQ_KEY = b"UNIQ_KEY"
DELAY = b"DELAY"
REAL_TOPIC = b"REAL_TOPIC"
REAL_QUEUE_ID = b"REAL_QID"
MULTI_DISPATCH = b"INNER_MULTI_DISPATCH"
MULTI_QUEUE_OFFSET = b"INNER_MULTI_QUEUE_OFFSET"


def parse_properties(raw: bytes) -> dict[bytes, bytes]:
    """The pairs in stored order. The last of equal names wins; pairs without name or value are
    dropped.

    A value may contain U+0001. The separator after the last pair may be missing (4.9.1 to 5.1.4
    omit it).
    """
    pairs = {}
    for pair in raw.split(PROPERTY_SEPARATOR):
        name, separator, value = pair.partition(NAME_VALUE_SEPARATOR)
        if name and separator and value:
            pairs[name] = value
    return pairs


def format_properties(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The stored form of pairs; each pair ends with the separator."""
    return b"".join(name + NAME_VALUE_SEPARATOR + value + PROPERTY_SEPARATOR for name, value in pairs)


def split_keys(value: bytes) -> list[bytes]:
    """The keys in a KEYS value: split at spaces, without empty ones, repeated ones kept."""
    return [key for key in value.split(KEY_SEPARATOR) if key]
