"""Which messages of a window have a wrong checksum in their property `__CRC32#`, with which a
broker can cover the whole message."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from logdex.kernels.common.crc import crc_function_address, crc_table
from logdex.kernels.rocketmq.property_crc import WRONG, property_crcs
from logdex.rocketmq.scan.window import Window


def wrong_property_crcs(window: Window) -> npt.NDArray[np.bool_]:
    """Returns a mask of the messages whose property is wrong. Messages without it are right."""
    c, n = window.columns, window.count
    results = np.zeros(n, np.uint8)
    at = c.position[:n] - window.data_offset
    function, table = crc_function_address(), crc_table().ctypes.data
    property_crcs(window.data.ctypes.data, at, c.size[:n], c.properties_at[:n], function, table, results)
    return np.asarray(results == WRONG)
