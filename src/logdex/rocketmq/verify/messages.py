"""Checks of single messages, a window at a time: the stored physical offset and the property
`__CRC32#`."""

from __future__ import annotations

import numpy as np

from logdex.kernels.rocketmq.property_crc import PROPERTY_SIZE_BYTES
from logdex.layout.rocketmq import MESSAGE_HEAD
from logdex.rocketmq.scan.property_check import wrong_property_crcs
from logdex.rocketmq.scan.window import Window
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
    c = window.columns
    for i in out.some("message-property-crc", np.flatnonzero(wrong_property_crcs(window))):
        out.find(
            "message-property-crc",
            window.file.path,
            int(c.position[i]) - window.file.start_offset + int(c.size[i]) - PROPERTY_SIZE_BYTES,
            "the property __CRC32# is not that of the message",
            expected="the CRC of all bytes before it",
            found="another",
            mend=RESTORE,
        )
