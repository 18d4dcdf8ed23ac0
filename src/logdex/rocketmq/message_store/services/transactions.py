"""Transactions: half messages, which no consumer sees, and their end.

A half message lies in RMQ_SYS_TRANS_HALF_TOPIC. Its commit puts it into its own topic; commit and
rollback put an op message into RMQ_SYS_TRANS_OP_HALF_TOPIC, by which a broker's check service knows
that the half message is done.

Source: TransactionalMessageBridge.putHalfMessage, EndTransactionProcessor,
TransactionalMessageServiceImpl.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

from logdex.errors import UsageError
from logdex.layout.rocketmq import SYS_FLAG_COMMIT, SYS_FLAG_TRANSACTION_MASK
from logdex.primitives.java_hash_map import DEFAULT_CAPACITY
from logdex.primitives.text import to_bytes
from logdex.rocketmq.files.config_files import ConsumerOffsets
from logdex.rocketmq.message import properties as props
from logdex.rocketmq.message.own_topics import HALF_TOPIC_NAME, OP_TOPIC_NAME
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message_store.core import StoreCore
from logdex.rocketmq.message_store.derived.queues import LiveQueues
from logdex.rocketmq.message_store.put.append import acknowledged, put_encoded, put_refusal, queue_of
from logdex.rocketmq.message_store.put.encode import Encoder
from logdex.rocketmq.message_store.put.message import Message, PutMessageResult, Refusal, Text, require_message
from logdex.rocketmq.message_store.put.stored import properties_of, put_stored, real_place
from logdex.rocketmq.read.get_message import QueueView, get_message

_GROUP = b"CID_RMQ_SYS_TRANS"
"""The group under which a broker's check service commits how far it is."""
_TRANSACTION_ID, _PRODUCER_GROUP, _IS_HALF = b"__transactionId__", b"PGROUP", b"TRAN_MSG"
_REMOVE_TAG = b"d"
_AT_ONCE = 32


class TransactionService:
    """The transactions of one store. Thread-safe. `StoreCore.lock` is never held while its lock is
    taken."""

    def __init__(self, core: StoreCore, queues: LiveQueues, encoder: Encoder) -> None:
        self._core, self._queues, self._encoder = core, queues, encoder
        self._lock = threading.Lock()
        self._half_offset = self._op_offset = -1
        """The next queue offsets to look at; -1 before the first look."""
        self._done: dict[int, int] = {}
        """The physical offset of the last op message for each queue offset of a half message. It
        ends the half messages before it alone: a queue that was lost after all of its messages had
        expired begins again at offset 0."""

    def _begin(self) -> None:
        """Begins where a broker's check service ended: all half messages before are done."""
        if self._half_offset < 0:
            checked = ConsumerOffsets.read(self._core.paths.config, env=self._core.env).offsets
            self._op_offset = checked.get((OP_TOPIC_NAME, _GROUP), {}).get(0, 0)
            self._half_offset = checked.get((HALF_TOPIC_NAME, _GROUP), {}).get(0, 0)

    # -- putting ----------------------------------------------------------------------------------
    def put_half(self, message: Message, producer_group: Text) -> PutMessageResult:
        """See `MessageStore.put_half`."""
        core, encoder = self._core, self._encoder
        message = require_message(message)
        if message.delay_level > 0:
            raise UsageError("a half message has no delay level", hint="leave delay_level out")
        topic = put_refusal(core, encoder, message.topic, message.body)
        if isinstance(topic, Refusal):
            return topic.result
        now_ms = core.clock_ms()
        queue_id = queue_of(core, topic, message.queue_id, now_ms)
        pairs = encoder.pairs(message, now_ms)
        pairs |= {_IS_HALF: b"true", _PRODUCER_GROUP: to_bytes(producer_group)}
        if core.config.dialect.half_has_transaction_id and pairs.get(props.UNIQ_KEY):
            pairs[_TRANSACTION_ID] = pairs[props.UNIQ_KEY]
        pairs |= {props.REAL_TOPIC: topic, props.REAL_QUEUE_ID: b"%d" % queue_id}
        sys_flag = message.sys_flag & ~SYS_FLAG_TRANSACTION_MASK
        half = replace(message, topic=HALF_TOPIC_NAME, tags=None, keys=(), properties=pairs, sys_flag=sys_flag)
        self._require_topic(HALF_TOPIC_NAME, now_ms)
        encoded = encoder.encode(half, HALF_TOPIC_NAME, 0, now_ms)
        if isinstance(encoded, Refusal):
            return encoded.result
        return put_encoded(core, encoded, message.wait_store_msg_ok)

    def _require_topic(self, topic: bytes, now_ms: int) -> None:
        if topic not in self._core.topics:
            self._core.topics.create(topic, 1, now_ms)

    # -- ending -----------------------------------------------------------------------------------
    def end(self, phy_offset: int, *, commit: bool) -> PutMessageResult:
        """See `MessageStore.end_transaction`."""
        core = self._core
        with self._lock:
            with core.gate.reading():
                core.require_usable()
                half = core.reader.read_message(phy_offset)
            pairs = properties_of(half)
            place = real_place(pairs)
            if half.topic != HALF_TOPIC_NAME or half.physical_offset != phy_offset or place is None:
                raise UsageError(f"the message at {phy_offset} is no half message", hint="give what put_half returned")
            self._read_ops()
            if self._has_ended(half) or half.queue_offset < self._half_offset:
                raise UsageError(f"the transaction of the message at {phy_offset} has ended already")
            if not core.takes_puts:
                return core.put_refused
            self._require_topic(OP_TOPIC_NAME, core.clock_ms())
            result = self._commit(half, place, pairs) if commit else self._end(half)
            if not result.is_stored:
                return result
            if commit:
                self._end(half)
            with core.lock:
                ticket = core.group_commit.next_ticket()
        return acknowledged(core, result, ticket, waits=True)

    def _has_ended(self, half: StoredMessage) -> bool:
        return self._done.get(half.queue_offset, -1) > half.physical_offset

    def _commit(self, half: StoredMessage, place: tuple[bytes, int], pairs: dict[bytes, bytes]) -> PutMessageResult:
        if self._core.config.dialect.commit_drops_place:
            del pairs[props.REAL_TOPIC], pairs[props.REAL_QUEUE_ID]
        sys_flag = half.sys_flag & ~SYS_FLAG_TRANSACTION_MASK | SYS_FLAG_COMMIT
        offset = half.physical_offset
        return put_stored(
            self._core, self._encoder, half, place, pairs, sys_flag=sys_flag, prepared_transaction_offset=offset
        )

    def _end(self, half: StoredMessage) -> PutMessageResult:
        """Puts the op message. If it is refused, as by a busy page cache, the half message stays
        pending, although it may be committed: as in the broker, it can be committed twice then."""
        core, host, now_ms = self._core, self._encoder.store_host, self._core.clock_ms()
        body = b"%d," if core.config.dialect.transaction_ops_are_lists else b"%d"
        op = replace(
            half,
            body=body % half.queue_offset,
            flag=0,
            born_timestamp_ms=now_ms,
            born_host=host,
            store_host=host,
            reconsume_times=0,
        )
        pairs = {props.TAGS: _REMOVE_TAG, b"WAIT": b"true"}
        place = OP_TOPIC_NAME, half.queue_id
        put = put_stored(core, self._encoder, op, place, pairs, sys_flag=0, map_capacity=DEFAULT_CAPACITY)
        if put.is_stored:
            self._done[half.queue_offset] = put.physical_offset
        return put

    # -- listing ----------------------------------------------------------------------------------
    def pending(self) -> list[StoredMessage]:
        """See `MessageStore.pending_transactions`."""
        with self._lock:
            self._read_ops()
            halves = self._walk(HALF_TOPIC_NAME, self._half_offset)
            # A message that was put there otherwise, without a place, cannot be ended.
            return [
                half for half in halves if not self._has_ended(half) and real_place(properties_of(half)) is not None
            ]

    def _read_ops(self) -> None:
        """Takes in the op messages that were dispatched since the last call."""
        self._begin()
        for op in self._walk(OP_TOPIC_NAME, self._op_offset):
            if op.tags == _REMOVE_TAG:
                ended = (int(each) for each in op.body.split(b",") if each.isdigit())
                self._done.update(dict.fromkeys(ended, op.physical_offset))
            self._op_offset = op.queue_offset + 1

    def _walk(self, topic: bytes, offset: int) -> Iterator[StoredMessage]:
        """The messages of queue 0 of a topic that are dispatched, from a queue offset on."""
        core = self._core
        while True:
            with core.gate.reading():
                core.require_open()
                queue = self._queues.view(topic, 0)
                if queue is None:
                    return
                view = QueueView.of(queue, core.reader.min_offset, core.log.end_offset)
                at = max(offset, view.min_offset)
                if at >= view.max_offset:
                    return
                found = get_message(view, core.reader, at, _AT_ONCE)
            yield from found.messages
            if found.problem is not None:
                raise found.problem
            offset = max(found.next_begin_offset, at + 1)
