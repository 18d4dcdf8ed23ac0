"""The short way of a usual message into the log: what `append.put_message` does, without the
objects and most of the calls between its steps, which take longer than the work itself.

A message is usual if it has a body, at most keys and a tag of text, and a topic that had a message
before. `append.put_message` puts all others. A test holds that both write the same bytes.
"""

from __future__ import annotations

from logdex.errors import UsageError
from logdex.layout.rocketmq import MESSAGE_MAGIC_V1
from logdex.primitives.crc import body_crc
from logdex.primitives.text import to_bytes
from logdex.rocketmq.message.stored_message import head_struct
from logdex.rocketmq.message_store.core import StoreCore
from logdex.rocketmq.message_store.options import never
from logdex.rocketmq.message_store.put.append import acknowledged
from logdex.rocketmq.message_store.put.encode import Encoder
from logdex.rocketmq.message_store.put.message import Message, PutMessageResult, PutMessageStatus, Text
from logdex.rocketmq.message_store.put.property_checks import PROPERTIES_SIZE_BYTES_MAX

_TOPIC_SIZE_MAX = 127
_QUEUE_ID_MAX = 0xFFFF
_Topic = tuple[bytes, bytes]
"""A topic as stored bytes, without and with its length before them."""
_OK = PutMessageStatus.PUT_OK
_new_tuple = tuple.__new__


class QuickPuts:
    """Puts usual messages. Thread-safe."""

    def __init__(self, core: StoreCore, encoder: Encoder) -> None:
        self._core, self._encoder = core, encoder
        self._is_never_busy = core.options.page_cache_busy is never
        self._is_async = core.options.flush == "async"
        self._topics: dict[Text, _Topic] = {}
        self._is_cut = not core.config.dialect.separator_at_end
        self._head = head_struct(encoder.host_flags)
        self._lock, self._unlock = core.lock.acquire, core.lock.release  # half the time of a with statement

    def put(self, message: Message) -> PutMessageResult | None:
        """Puts a message. Returns None, with nothing written, if it is for `append.put_message`.

        Raises `StorageError` or `LogFailedError` if writing fails.
        """
        core, encoder, body, queue_id = self._core, self._encoder, message.body, message.queue_id
        topic = self._topics.get(message.topic) or self._learn(message.topic)
        keys, tags = None, message.tags
        if message.keys:
            keys = message.keys if type(message.keys) is str else _joined(message.keys)
            if keys is None:
                return None
        if (
            topic is None
            or type(body) is not bytes
            or (tags is not None and type(tags) is not str)
            or message.properties
            or message.delay_level
            or message.flag
            or message.sys_flag
            or message.reconsume_times
            or message.prepared_transaction_offset
            or message.born_timestamp_ms is not None
            or message.born_host is not None
            or message.store_host is not None
            or not self._is_never_busy
            or not core.takes_puts
        ):
            return None
        if queue_id is not None and (
            type(queue_id) is not int
            or not 0 <= queue_id < (core.topics.queue_nums(topic[0]) or 0)
            or queue_id > _QUEUE_ID_MAX
        ):
            return None
        now_ms = core.clock_ms()
        properties = self._properties(keys, tags, now_ms)
        if properties is None:
            return None
        size = self._head.size + len(body) + len(topic[1]) + 2 + len(properties)
        if not encoder.admits(len(body), size):
            return None
        if queue_id is None:
            queue_id = core.topics.choose_queue(topic[0])
        parts = body, topic[1], len(properties).to_bytes(2, "big"), properties
        result, ticket = self._append((topic[0], queue_id), size, parts, now_ms, message.wait_store_msg_ok)
        if self._is_async and core.wait_slaves is None:
            return result
        return acknowledged(core, result, ticket, message.wait_store_msg_ok)

    def _learn(self, text: Text) -> _Topic | None:
        """Returns a topic that had a message before."""
        known = self._encoder.known_topics.get(text)
        if known is None or len(known) > _TOPIC_SIZE_MAX or (self._core.topics.queue_nums(known) or 0) < 1:
            return None
        topic = self._topics[text] = known, bytes((len(known),)) + known
        return topic

    def _properties(self, keys: str | None, tags: str | None, now_ms: int) -> bytes | None:
        """The stored form of the properties, in the order of the broker's map; None if there is
        none."""
        text, count, unique_keys = "", 0, self._encoder.unique_keys
        if keys is not None:
            text, count = f"KEYS\x01{keys}\x02", 1
        if unique_keys is not None:
            text, count = f"{text}UNIQ_KEY\x01{unique_keys.next_text(now_ms)}\x02", count + 1
        if tags is not None:
            text, count = f"{text}TAGS\x01{tags}\x02", count + 1
        if text.count("\x02") != count or "\0" in text:
            return None
        try:
            raw = to_bytes(text)
        except UsageError:
            return None
        if self._is_cut:
            raw = raw[:-1]
        return raw if len(raw) <= PROPERTIES_SIZE_BYTES_MAX else None

    def _append(
        self, queue: tuple[bytes, int], size: int, parts: tuple[bytes, bytes, bytes, bytes], born_ms: int, waits: bool
    ) -> tuple[PutMessageResult, int]:
        """Writes a message at the end of the log. Returns its place and its ticket."""
        core, encoder, body = self._core, self._encoder, parts[0]
        crc, log, queue_offsets = body_crc(body), core.log, core.queue_offsets
        self._lock()
        try:
            if core.closing or core.group_commit.failed is not None:
                return core.put_refused, 0
            if not log.fits(size) and not core.make_room(size):
                return PutMessageResult(PutMessageStatus.CREATE_MAPPED_FILE_FAILED), 0
            at, now_ms, queue_offset = log.next_offset, core.clock_ms(), queue_offsets.get(queue, 0)
            head = self._head.pack(
                size,
                MESSAGE_MAGIC_V1,
                crc,
                queue[1],
                0,
                queue_offset,
                at,
                encoder.host_flags,
                born_ms,
                encoder.packed_born_host,
                now_ms,
                encoder.packed_store_host,
                0,
                0,
                len(body),
            )
            write = core.append if self._is_async or not waits else core.hold
            write(b"".join((head, *parts)))
            queue_offsets[queue] = queue_offset + 1
            core.last_timestamp_ms = now_ms
            core.stats.puts += 1
            ticket = core.group_commit.next_ticket()
        finally:
            self._unlock()
        place = (_OK, at, queue_offset, size, now_ms, *queue, encoder.store_host, 1, (), "")
        return _new_tuple(PutMessageResult, place), ticket  # half the time of a call with eleven arguments


def _joined(keys: object) -> str | None:
    """Several keys as one text; None if they are no list of texts."""
    if isinstance(keys, (tuple, list)) and all(type(key) is str for key in keys):
        return " ".join(keys)
    return None
