"""The question to the index: a topic, a key and store times."""

from __future__ import annotations

from typing import NamedTuple

from logdex.errors import UsageError
from logdex.layout.rocketmq import SYS_FLAG_ROLLBACK
from logdex.primitives.text import to_bytes
from logdex.rocketmq.index_file.index_keys import TAG_INDEX_TYPE, key_hash_of, message_key_hashes
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.settings.dialect import DEFAULT_VERSION, Dialect

TIME_MIN_MS, TIME_MAX_MS = -(1 << 63), (1 << 63) - 1
_EVERY_KEY = Dialect.of(DEFAULT_VERSION)
"""The rules of a version that indexes everything that any version does."""


class KeyQuestion(NamedTuple):
    """The messages that a query asks for: topic and key as stored bytes, and store times in
    milliseconds from `begin_ms` to `end_ms`, both inclusive. With `index_type` ``T`` the key is a
    tag."""

    topic: bytes
    key: bytes
    begin_ms: int = TIME_MIN_MS
    end_ms: int = TIME_MAX_MS
    index_type: str | None = None

    @staticmethod
    def of(
        topic: bytes | str, key: bytes | str, begin_ms: int | None, end_ms: int | None, index_type: str | None
    ) -> KeyQuestion:
        """Returns the question for texts; None for a time means no bound. Raises `UsageError` for
        an unknown `index_type`."""
        if index_type not in (None, "", TAG_INDEX_TYPE):
            raise UsageError(f"index_type is {index_type!r}", hint=f"use {TAG_INDEX_TYPE!r} for tags")
        begin_ms = TIME_MIN_MS if begin_ms is None else begin_ms
        end_ms = TIME_MAX_MS if end_ms is None else end_ms
        return KeyQuestion(to_bytes(topic), to_bytes(key), begin_ms, end_ms, index_type)

    @property
    def is_for_any_time(self) -> bool:
        """Whether the question has no bound of time."""
        return self.begin_ms == TIME_MIN_MS and self.end_ms == TIME_MAX_MS

    def names(self, message: StoredMessage) -> bool:
        """Whether the message has this topic and key, byte for byte."""
        if message.topic != self.topic:
            return False
        if self.index_type == TAG_INDEX_TYPE:
            return message.tags == self.key
        return message.unique_key == self.key or self.key in message.keys

    def may_mean(self, message: StoredMessage) -> bool:
        """Whether the index may point to the message: one of its keys has the hash."""
        return self.key_hash() in message_key_hashes(message, _EVERY_KEY)

    def wants(self, message: StoredMessage) -> bool:
        """Whether a message with this key is within the requested times and was not rolled back."""
        in_time = self.begin_ms <= message.store_timestamp_ms <= self.end_ms
        return in_time and message.transaction_type != SYS_FLAG_ROLLBACK

    def key_hash(self) -> int:
        """Returns the hash in the index."""
        return key_hash_of(self.topic, self.key, self.index_type)
