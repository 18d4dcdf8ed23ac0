"""Checks of single messages, a window at a time: the stored physical offset and the property
`__CRC32#`."""

from __future__ import annotations

import numpy as np

from logdex.kernels.common.crc import crc_function_address, crc_table
from logdex.kernels.rocketmq.property_crc import PROPERTY_SIZE_BYTES, WRONG, property_crcs
from logdex.layout.rocketmq import MESSAGE_HEAD
from logdex.rocketmq.scan.scanner import Window
from logdex.rocketmq.verify.checks import RESTORE, Collector


def check_messages(window: Window, out: Collector) -> None:
    """Reports messages whose stored physical offset or property CRC is wrong."""
    c, n = window.columns, window.count
    for i in out.some("message-physical-offset", np.flatnonzero(c.stored_offset[:n] != c.position[:n])):
        at = int(c.position[i])
        out.find(
            "message-physical-offset",
            window.file.path,
            at - window.file.start_offset + MESSAGE_HEAD.offset_of("physical_offset"),
            "the message says that it lies elsewhere",
            expected=at,
            found=int(c.stored_offset[i]),
            mend=RESTORE,
        )
    _check_property_crcs(window, out)


def _check_property_crcs(window: Window, out: Collector) -> None:
    c, n = window.columns, window.count
    at = c.position[:n] - window.file.start_offset
    results = np.zeros(n, np.uint8)
    wrong = property_crcs(
        window.data.ctypes.data,
        at,
        c.size[:n],
        c.properties_at[:n],
        crc_function_address(),
        crc_table().ctypes.data,
        results,
    )
    if not wrong:
        return
    for i in out.some("message-property-crc", np.flatnonzero(results == WRONG)):
        out.find(
            "message-property-crc",
            window.file.path,
            int(at[i]) + int(c.size[i]) - PROPERTY_SIZE_BYTES,
            "the property __CRC32# is not that of the message",
            expected="the CRC of all bytes before it",
            found="another",
            mend=RESTORE,
        )
