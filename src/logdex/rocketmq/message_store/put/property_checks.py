"""Which properties the engine refuses, whichever way a message is put.

Source: HookUtils.checkInnerBatch, handleScheduleMessage, CommitLog.asyncPutMessage.
"""

from __future__ import annotations

from collections.abc import Container

from logdex.rocketmq.message_store.put.message import PutMessageStatus, Refusal, illegal
from logdex.rocketmq.settings.dialect import Dialect

PROPERTIES_SIZE_BYTES_MAX = (1 << 15) - 1
TIMER_NAMES = (b"TIMER_DELIVER_MS", b"TIMER_DELAY_SEC", b"TIMER_DELAY_MS")
_INNER_NUM = b"INNER_NUM"


def refused_properties(names: Container[bytes], dialect: Dialect, *, may_be_timed: bool = True) -> Refusal | None:
    """Why a message with properties of these names is refused, None if it is not. A delayed message
    and one of a transaction are not for the timer wheel: `may_be_timed` is False then."""
    if _INNER_NUM in names:
        return illegal("the message has the property of an inner batch, INNER_NUM")
    if may_be_timed and dialect.has_timer and _is_timed(names):
        return Refusal(PutMessageStatus.WHEEL_TIMER_NOT_ENABLE)
    return None


def _is_timed(names: Container[bytes]) -> bool:
    """Whether the message asks for the timer wheel, which is not part of this store."""
    return any(name in names for name in TIMER_NAMES) and b"TIMER_OUT_MS" not in names


def properties_exceed(size_bytes: int) -> Refusal:
    """Refuses a message with properties of this size."""
    reason = f"the properties, with keys and tags, have {size_bytes:,} bytes, and {PROPERTIES_SIZE_BYTES_MAX:,} at most"
    return Refusal(PutMessageStatus.PROPERTIES_SIZE_EXCEEDED, f"{reason} are stored")
