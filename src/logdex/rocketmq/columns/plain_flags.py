"""What a message's sysFlag says of it, for whole columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from logdex.layout.rocketmq import (
    SYS_FLAG_BORN_HOST_V6,
    SYS_FLAG_COMPRESSED,
    SYS_FLAG_COMPRESSION_TYPE_MASK,
    SYS_FLAG_PREPARED,
    SYS_FLAG_ROLLBACK,
    SYS_FLAG_STORE_HOST_V6,
    SYS_FLAG_TRANSACTION_MASK,
)

Int32s = npt.NDArray[np.int32]

_OF_THE_FORM = SYS_FLAG_COMPRESSED | SYS_FLAG_COMPRESSION_TYPE_MASK | SYS_FLAG_BORN_HOST_V6 | SYS_FLAG_STORE_HOST_V6


def are_queued(sys_flags: Int32s) -> npt.NDArray[np.bool_]:
    """Returns a mask of the messages that the engine puts into their queue: neither half messages
    nor notes of a rollback."""
    kinds = sys_flags & SYS_FLAG_TRANSACTION_MASK
    mask: npt.NDArray[np.bool_] = (kinds != SYS_FLAG_PREPARED) & (kinds != SYS_FLAG_ROLLBACK)
    return mask


def without_form(sys_flags: Int32s) -> Int32s:
    """Returns the flags without those of how the message is stored: compressed, sizes of hosts."""
    return sys_flags & ~np.int32(_OF_THE_FORM)
