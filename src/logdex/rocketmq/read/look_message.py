"""One message, by its physical offset or by the server's MessageID.

Source: DefaultMessageStore.lookMessageByOffset; MessageDecoder.decodeMessageId.
"""

from __future__ import annotations

from logdex.errors import CorruptError, MissingFileError
from logdex.primitives.wrong_questions import require_given
from logdex.rocketmq.commit_log.commit_log import AHEAD_BYTES, CommitLog
from logdex.rocketmq.message.message_id import MessageId
from logdex.rocketmq.message.stored_message import StoredMessage


def look_message_by_offset(log: CommitLog, valid_end_offset: int, phy_offset: int) -> StoredMessage:
    """Returns the message at a physical offset of a log that ends at `valid_end_offset`. Raises
    `MissingFileError` outside the log, and `CorruptError` if no message begins there."""
    require_given(phy_offset=phy_offset)
    if not log.min_offset <= phy_offset < valid_end_offset:
        raise MissingFileError(
            f"no message at {phy_offset}",
            path=log.directory,
            hint=f"the log goes from {log.min_offset} to {valid_end_offset}",
        )
    return log.read_message(phy_offset, ahead_bytes=AHEAD_BYTES)


def look_message(log: CommitLog, valid_end_offset: int, wanted: MessageId) -> StoredMessage:
    """Returns the message with a MessageID. Raises `MissingFileError` or `CorruptError` if the log
    does not hold that message."""
    hint = "a client's id (UNIQ_KEY) is found as a key: logdex query --key"
    try:
        message = look_message_by_offset(log, valid_end_offset, wanted.physical_offset)
    except (MissingFileError, CorruptError) as error:
        error.hint = hint if error.hint is None else f"{error.hint}; {hint}"
        raise
    if message.store_host != wanted.store_host:
        raise MissingFileError(
            f"the message at {wanted.physical_offset} was stored by {message.store_host}, not {wanted.store_host}",
            path=log.directory,
            hint=hint,
        )
    return message
