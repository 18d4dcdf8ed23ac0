"""Arrays with the bytes of a file."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

ByteArray = npt.NDArray[np.uint8]


def owner_of(array: npt.NDArray[Any]) -> object:
    """Returns the object whose memory an array is a view of, whatever views are between."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base
