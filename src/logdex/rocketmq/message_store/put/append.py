"""Putting one message, or several as one unit: the engine's checks in the engine's order, then the
bytes at the end of the log.

Source: DefaultMessageStore.asyncPutMessage, HookUtils.checkBeforePutMessage,
CommitLog.asyncPutMessage, asyncPutMessages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from logdex.errors import UsageError
from logdex.layout.rocketmq import BLANK, SYS_FLAG_TRANSACTION_MASK
from logdex.rocketmq.message_store.core import StoreCore
from logdex.rocketmq.message_store.options import never
from logdex.rocketmq.message_store.put.encode import Encoded, Encoder
from logdex.rocketmq.message_store.put.message import (
    Message,
    PutMessageResult,
    PutMessageStatus,
    Refusal,
    Text,
    illegal,
    require_message,
)
from logdex.rocketmq.message_store.put.property_checks import PROPERTIES_SIZE_BYTES_MAX, properties_exceed

_BATCH_ITEM_SIZE_BYTES = 22
"""The bytes of a message in a client's batch beside body and properties."""


def put_message(core: StoreCore, encoder: Encoder, message: Message) -> PutMessageResult:
    """Puts one message; with ``flush="sync"`` it is on disk when this returns.

    Raises `UsageError` for a message that no store can hold, and `StorageError` or `LogFailedError`
    if writing fails.
    """
    message = require_message(message)
    found = put_refusal(core, encoder, message.topic, message.body)
    if isinstance(found, Refusal):
        return found.result
    now_ms = core.clock_ms()
    queue_id = queue_of(core, found, message.queue_id, now_ms)
    encoded = encoder.encode(message, found, queue_id, now_ms)
    if isinstance(encoded, Refusal):
        return encoded.result
    return put_encoded(core, encoded, message.wait_store_msg_ok)


def put_encoded(core: StoreCore, encoded: Encoded, waits: bool) -> PutMessageResult:
    """Puts a message that is encoded. With `waits` and ``flush="sync"`` it is on disk when this
    returns. Errors are those of `put_message`."""
    with core.lock:
        if core.closing or core.group_commit.failed is not None:
            return core.put_refused
        result = append_encoded(core, encoded, core.writer(waits))
        ticket = core.group_commit.next_ticket()
    return acknowledged(core, result, ticket, waits)


def put_refusal(core: StoreCore, encoder: Encoder, topic: Text, body: object) -> bytes | Refusal:
    """The checks before a message is looked at as a whole. Returns the topic's bytes, or why the
    message is refused."""
    if not core.takes_puts:
        refused = core.put_refused
        return Refusal(refused.status, refused.reason)
    known = encoder.topic_of(topic)
    if known is None:
        return encoder.topic_too_long(topic)
    if body is None:
        return illegal("the body is None: give b'' for none")
    is_busy = core.options.page_cache_busy
    return known if is_busy is never or not is_busy() else Refusal(PutMessageStatus.OS_PAGE_CACHE_BUSY)


def queue_of(core: StoreCore, topic: bytes, queue_id: int | None, now_ms: int) -> int:
    """The queue for a message of a topic, which is created if it is new."""
    count = core.topics.queue_nums(topic)
    if count is None or count < 1 or (queue_id is not None and not 0 <= queue_id < count):
        core.topics.require(topic, queue_id, now_ms)
    return core.topics.choose_queue(topic) if queue_id is None else queue_id


def append_encoded(core: StoreCore, encoded: Encoded, write: Callable[[bytes], None]) -> PutMessageResult:
    """Writes one message at the end of the log. Call it with the lock held."""
    light: dict[tuple[bytes, int], int] = {}
    if encoded.light is not None:
        numbered = _with_places(core, encoded, light)
        if isinstance(numbered, Refusal):
            return numbered.result
        encoded = numbered
    if not core.make_room(encoded.size_bytes):
        return PutMessageResult(PutMessageStatus.CREATE_MAPPED_FILE_FAILED)
    now_ms, at = core.clock_ms(), core.log.next_offset
    key = (encoded.topic, encoded.queue_id)
    is_queued = encoded.is_queued
    queue_offset = core.queue_offsets.get(key, 0) if is_queued else 0
    write(encoded.place(queue_offset, at, now_ms))
    if light:
        core.queue_offsets.update(light)
    if is_queued:
        core.queue_offsets[key] = queue_offset + 1
    core.last_timestamp_ms = now_ms
    core.stats.puts += 1
    place = (at, queue_offset, encoded.size_bytes, now_ms, *key, encoded.store_host, 1, (), "")
    return tuple.__new__(PutMessageResult, (PutMessageStatus.PUT_OK, *place))


def _with_places(core: StoreCore, encoded: Encoded, following: dict[tuple[bytes, int], int]) -> Encoded | Refusal:
    """The message with its places in light queues, or why it is refused with them. `following` has
    the next offsets of queues that differ from the store's, and gets those behind the message. Call
    it with the lock held."""
    if encoded.light is None:
        return encoded
    queues = encoded.light.queues
    offsets = [following.get(queue, core.queue_offsets.get(queue, 0)) for queue in queues]
    if len(encoded.light.properties(offsets)) > PROPERTIES_SIZE_BYTES_MAX:
        return properties_exceed(len(encoded.light.properties(offsets)))
    numbered = encoded.with_places(offsets)
    room = core.config.mapped_file_size_commit_log - BLANK.size_bytes
    if numbered.size_bytes > room:
        size = f"{numbered.size_bytes:,} bytes with its places in light queues"
        return illegal(f"the message has {size}, and a file of the CommitLog has room for {room:,}")
    following.update((queue, offset + 1) for queue, offset in zip(queues, offsets, strict=True))
    return numbered


def acknowledged(core: StoreCore, result: PutMessageResult, ticket: int, waits: bool) -> PutMessageResult:
    """Returns the result when the put may be acknowledged: first the disk is waited for, then the
    slaves, whose status counts if both fail. Call it without the lock."""
    options = core.options
    if not waits or (options.flush != "sync" and core.wait_slaves is None):
        return result
    if options.flush == "sync" and not core.group_commit.wait(ticket, options.sync_flush_timeout_ms / 1000):
        result = result._replace(status=PutMessageStatus.FLUSH_DISK_TIMEOUT)
        with core.lock:
            core.write_held()
    wait_slaves = core.wait_slaves
    if wait_slaves is not None and result.is_stored:
        status = wait_slaves(core.log.next_offset)
        if status is not PutMessageStatus.PUT_OK:
            return result._replace(status=status)
    return result


# -- batches -------------------------------------------------------------------------------------
def put_messages(core: StoreCore, encoder: Encoder, messages: Sequence[Message]) -> PutMessageResult:
    """Puts messages of one topic and queue as one unit: they lie one after the other in one file,
    with consecutive queue offsets.

    Errors are those of `put_message`; `UsageError` also for messages of several topics or queues.
    """
    if not messages:
        raise UsageError("a batch has at least one message")
    first = messages[0]
    if any(each.topic != first.topic or each.queue_id != first.queue_id for each in messages):
        raise UsageError("the messages of a batch have one topic and one queue", hint="put them one by one")
    found = put_refusal(core, encoder, first.topic, first.body)
    if isinstance(found, Refusal):
        return found.result
    if any(each.sys_flag & SYS_FLAG_TRANSACTION_MASK or each.delay_level > 0 for each in messages):
        return illegal("a batch has no transactional and no delayed messages").result
    now_ms = core.clock_ms()
    queue_id = queue_of(core, found, first.queue_id, now_ms)
    batch: list[Encoded] = []
    for each in messages:
        encoded = encoder.encode(replace(each, prepared_transaction_offset=0), found, queue_id, now_ms)
        if isinstance(encoded, Refusal):
            return encoded.result
        batch.append(encoded)
    waits = all(each.wait_store_msg_ok for each in messages)
    with core.lock:
        if not core.takes_puts:
            return core.put_refused
        result = _append_batch(core, encoder, batch, core.writer(waits))
        ticket = core.group_commit.next_ticket()
    return acknowledged(core, result, ticket, waits)


def _size_in_batch(encoded: Encoded) -> int:
    """The size of the message as a client sends it in a batch."""
    rest = len(encoded.rest) - len(encoded.topic)
    return _BATCH_ITEM_SIZE_BYTES + rest - 3


def _append_batch(
    core: StoreCore, encoder: Encoder, batch: list[Encoded], write: Callable[[bytes], None]
) -> PutMessageResult:
    """Writes a batch at the end of the log. Call it with the lock held."""
    light: dict[tuple[bytes, int], int] = {}
    for place, encoded in enumerate(batch):
        numbered = _with_places(core, encoded, light)
        if isinstance(numbered, Refusal):
            return numbered.result
        batch[place] = numbered
    total = sum(encoded.size_bytes for encoded in batch)
    sent = sum(_size_in_batch(encoded) for encoded in batch)
    if not encoder.admits_batch(total, sent):
        return encoder.batch_too_large(total, sent).result
    if not core.make_room(total):
        return PutMessageResult(PutMessageStatus.CREATE_MAPPED_FILE_FAILED)
    now_ms, begin = core.clock_ms(), core.log.next_offset
    first = batch[0]
    key = (first.topic, first.queue_id)
    queue_offset = core.queue_offsets.get(key, 0)
    parts, offsets, at = [], [], begin
    for place, encoded in enumerate(batch):
        parts.append(encoded.place(queue_offset + place, at, now_ms))
        offsets.append(at)
        at += encoded.size_bytes
    write(b"".join(parts))
    core.queue_offsets.update({**light, key: queue_offset + len(batch)})
    core.last_timestamp_ms = now_ms
    core.stats.puts += 1
    core.stats.more_messages += len(batch) - 1
    return PutMessageResult(
        PutMessageStatus.PUT_OK,
        begin,
        queue_offset,
        total,
        now_ms,
        first.topic,
        first.queue_id,
        first.store_host,
        len(batch),
        tuple(offsets),
    )
