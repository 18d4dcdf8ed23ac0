"""Verifies the property `__CRC32#`, which 5.2 and later can write after all others
(enabledAppendPropCRC).

It covers everything before it in the message. Its ten digits are stored lowest first, filled with
zeros. Twin: `property_crc_plain`. Source: MessageDecoder.createCrc32,
CommitLog.checkMessageAndReturnSize.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from logdex.kernels.common.crc import crc32
from logdex.kernels.common.memory import load_le64, load_u8
from logdex.kernels.compiled import kernel
from logdex.primitives.crc import body_crc

PROPERTY_SIZE_BYTES = 20
_NAME = b"__CRC32#\x01"
_NAME_WORD = np.uint64(int.from_bytes(_NAME[:8], "little"))
_DIGITS = 10

ABSENT, RIGHT, WRONG = 0, 1, 2


@kernel
def property_crcs(
    base: int,
    at: npt.NDArray[np.int64],
    size: npt.NDArray[np.int32],
    properties_at: npt.NDArray[np.int32],
    function: int,
    table: int,
    out: npt.NDArray[np.uint8],
) -> int:
    """Fills `out` with ABSENT, RIGHT or WRONG for messages at `base + at`; returns the number of
    wrong ones."""
    wrong = 0
    for i in range(len(at)):
        out[i] = ABSENT
        if size[i] - properties_at[i] < PROPERTY_SIZE_BYTES:
            continue
        end = base + at[i] + size[i]
        start = end - PROPERTY_SIZE_BYTES
        if load_le64(start) != _NAME_WORD or load_u8(start + 8) != 1 or load_u8(end - 1) != 2:
            continue
        stated = 0
        for k in range(_DIGITS):
            digit = load_u8(end - 2 - k) - 48
            stated = stated * 10 + digit if 0 <= digit <= 9 else -(1 << 40)
        crc = crc32(function, table, base + at[i], np.int64(size[i]) - PROPERTY_SIZE_BYTES) & 0x7FFFFFFF
        out[i] = RIGHT if crc == stated else WRONG
        wrong += crc != stated
    return wrong


def property_crc_plain(message: bytes, properties_at: int) -> int:
    """The plain twin for one message: ABSENT, RIGHT or WRONG."""
    tail = message[-PROPERTY_SIZE_BYTES:]
    has_room = len(message) - properties_at >= PROPERTY_SIZE_BYTES
    if not has_room or not tail.startswith(_NAME) or not tail.endswith(b"\x02"):
        return ABSENT
    digits = tail[len(_NAME) : -1][::-1]
    stated = int(digits) if digits.isdigit() else -1
    return RIGHT if stated == body_crc(message[:-PROPERTY_SIZE_BYTES]) else WRONG


def property_crc_of(message: bytes) -> bytes:
    """The 20 bytes of the property for a message's bytes before it, for tests and writers."""
    digits = f"{body_crc(message):0{_DIGITS}d}"[::-1]
    return _NAME + digits.encode() + b"\x02"
