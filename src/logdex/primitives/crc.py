"""The checksum of RocketMQ message bodies."""

from __future__ import annotations

import zlib


def body_crc(body: bytes | memoryview) -> int:
    """`UtilAll.crc32`: the CRC-32 of a message body without its highest bit, as stored in
    `bodyCRC`."""
    return zlib.crc32(body) & 0x7FFFFFFF
