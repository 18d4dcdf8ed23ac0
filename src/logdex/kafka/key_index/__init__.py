"""The key index, Logdex's own file: it finds the records of a segment that may have a key."""

from logdex.kafka.key_index.build import build_key_index, derive_key_index
from logdex.kafka.key_index.reader import KeyIndex, decode_header

__all__ = ["KeyIndex", "build_key_index", "decode_header", "derive_key_index"]
