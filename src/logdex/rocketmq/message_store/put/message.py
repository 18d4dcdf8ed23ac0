"""A message as a caller puts it, and the results of puts.

Source: Message, MessageExtBrokerInner, PutMessageStatus, PutMessageResult, AppendMessageResult.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

from logdex.errors import UsageError
from logdex.primitives.host import Host
from logdex.primitives.text import to_bytes
from logdex.primitives.wrong_questions import give_whole_number
from logdex.rocketmq.message.message_id import MessageId
from logdex.rocketmq.message.own_topics import HALF_TOPIC_NAME
from logdex.rocketmq.message.properties import KEY_SEPARATOR, REAL_QUEUE_ID, REAL_TOPIC

Text = str | bytes
_TEXT = (str, bytes)
_NUMBERS = (
    *("queue_id", "delay_level", "flag", "sys_flag"),
    *("born_timestamp_ms", "reconsume_times", "prepared_transaction_offset"),
)


@dataclass(slots=True)
class Message:
    """A message to put. Only `topic` is required; text is stored as UTF-8.

    `keys` is one key or several; a key with a space in it counts as several, as for the broker.
    `queue_id` None lets the store choose the topic's queues in turn. With a `delay_level` (1 is the
    first) the message is for later delivery; as in the engine, a level above the last one means the
    last one, and one below 0 none; the property DELAY alone delays nothing. `sys_flag` has the bits
    of transactions (PREPARED, COMMIT, ROLLBACK) and of compressed bodies; the bits of IPv6 hosts
    are set by the store. `born_timestamp_ms` None means now; `born_host` and `store_host` None mean
    the store's. With `wait_store_msg_ok` False, a put does not wait for the disk even if the
    store's flush is ``sync``.
    """

    topic: Text
    body: bytes = b""
    tags: Text | None = None
    keys: Text | Iterable[Text] = ()
    properties: Mapping[str, Text] | Mapping[bytes, Text] | None = None
    queue_id: int | None = None
    delay_level: int = 0
    flag: int = 0
    sys_flag: int = 0
    born_timestamp_ms: int | None = None
    born_host: Host | str | None = None
    store_host: Host | str | None = None
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    wait_store_msg_ok: bool = True


_MAY_BE_NONE = ("queue_id", "born_timestamp_ms")
"""The numbers of a message for which None has a meaning. For the others it means 0."""


def require_message(message: object) -> Message:
    """Returns a message with all of its numbers. Raises `UsageError` for anything but a message,
    and for a message with values of other types."""
    if not isinstance(message, Message):
        raise UsageError(
            f"only messages can be put, not {type(message).__name__}", hint="put_message(Message('orders', b'...'))"
        )
    topic: object = message.topic
    body: object = message.body
    tags: object = message.tags
    keys: object = message.keys
    if not isinstance(topic, _TEXT):
        raise UsageError(f"a message's topic is text, not {type(topic).__name__}")
    if not isinstance(body, (bytes, bytearray, memoryview, type(None))):
        hint = f"encode text: body={body[:20]!r}.encode()" if isinstance(body, str) else None
        raise UsageError(f"a message's body must be bytes, not {type(body).__name__}", hint=hint)
    if not isinstance(tags, (*_TEXT, type(None))):
        raise UsageError(f"a message's tag is text, not {type(tags).__name__}", hint="tags='paid'")
    if isinstance(keys, Mapping) or not isinstance(keys, (Iterable, type(None))):
        raise UsageError(f"a message's keys are texts, not {type(keys).__name__}", hint="keys=('order-17', 'user-9')")
    if isinstance(keys, (list, tuple, set, frozenset)) and not all(isinstance(key, _TEXT) for key in keys):
        raise UsageError("a message's keys are texts", hint="keys=('order-17', 'user-9')")
    _require_properties(message.properties)
    _require_same(message)
    _require_place(message)
    for name in _NUMBERS:
        value = getattr(message, name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise UsageError(f"a message's {name} is {value!r}", hint=give_whole_number(value))
    left_out: dict[str, Any] = {
        name: 0 for name in _NUMBERS if name not in _MAY_BE_NONE and getattr(message, name) is None
    }
    return replace(message, **left_out) if left_out else message


def messages_of(given: object) -> list[Message]:
    """Returns several messages as a list. Raises `UsageError` as `require_message` does, and for a
    single message."""
    if isinstance(given, (Message, Mapping, *_TEXT)) or not isinstance(given, Iterable):
        raise UsageError(
            f"put_messages takes several messages, not {type(given).__name__}",
            hint="put_messages([Message('orders', b'...')])",
        )
    return [require_message(message) for message in given]


def _require_properties(properties: object) -> None:
    hint = "properties={'trace': '1'}"
    if not isinstance(properties, (Mapping, type(None))):
        raise UsageError(f"a message's properties are a dict, not {type(properties).__name__}", hint=hint)
    for name, value in (properties or {}).items():
        if not isinstance(name, _TEXT) or not isinstance(value, _TEXT):
            raise UsageError(f"a message's property is {name!r}: {value!r}, and both must be text", hint=hint)


def _require_same(message: Message) -> None:
    """Raises `UsageError` for a tag or keys that differ from those of the properties."""
    keys = message.keys if isinstance(message.keys, (*_TEXT, list, tuple)) and message.keys else None
    for argument, name, given in (("tags", "TAGS", message.tags), ("keys", "KEYS", keys)):
        for own, value in (message.properties or {}).items():
            if given is not None and to_bytes(own) == name.encode() and to_bytes(value) != joined_keys(given):
                raise UsageError(
                    f"a message's {argument} are {given!r}, and its property {name} is {value!r}",
                    hint=f"give {argument}, and leave {name} out of the properties",
                )


def _require_place(message: Message) -> None:
    """Raises `UsageError` for what could never be ended: a half message that does not say which
    topic it is for."""
    names = {to_bytes(name) for name in message.properties or ()}
    if to_bytes(message.topic) == HALF_TOPIC_NAME and not names >= {REAL_TOPIC, REAL_QUEUE_ID}:
        raise UsageError(f"{HALF_TOPIC_NAME.decode()} has half messages alone", hint="put_half puts one")


def joined_keys(keys: Text | Iterable[Text]) -> bytes:
    """The value of KEYS: one key, or several with spaces between."""
    return to_bytes(keys) if isinstance(keys, _TEXT) else KEY_SEPARATOR.join([to_bytes(key) for key in keys])


class PutMessageStatus(Enum):
    """The outcome of a put. Names and meanings are the engine's."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    OS_PAGE_CACHE_BUSY = "OS_PAGE_CACHE_BUSY"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"
    IN_SYNC_REPLICAS_NOT_ENOUGH = "IN_SYNC_REPLICAS_NOT_ENOUGH"
    PUT_TO_REMOTE_BROKER_FAIL = "PUT_TO_REMOTE_BROKER_FAIL"
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"
    WHEEL_TIMER_FLOW_CONTROL = "WHEEL_TIMER_FLOW_CONTROL"
    WHEEL_TIMER_MSG_ILLEGAL = "WHEEL_TIMER_MSG_ILLEGAL"
    WHEEL_TIMER_NOT_ENABLE = "WHEEL_TIMER_NOT_ENABLE"


STORED = frozenset(
    (
        PutMessageStatus.PUT_OK,
        PutMessageStatus.FLUSH_DISK_TIMEOUT,
        PutMessageStatus.FLUSH_SLAVE_TIMEOUT,
        PutMessageStatus.SLAVE_NOT_AVAILABLE,
    )
)
"""The statuses of messages that are in the log."""


_REMARKS = {
    PutMessageStatus.FLUSH_DISK_TIMEOUT: "stored, but not on disk within sync_flush_timeout_ms",
    PutMessageStatus.FLUSH_SLAVE_TIMEOUT: "stored, but not at a slave in time",
    PutMessageStatus.SLAVE_NOT_AVAILABLE: "stored, but there is no slave that is near enough",
    PutMessageStatus.SERVICE_NOT_AVAILABLE: "the store takes no messages now",
    PutMessageStatus.CREATE_MAPPED_FILE_FAILED: "the next CommitLog file cannot be made",
    PutMessageStatus.MESSAGE_ILLEGAL: "no store can hold such a message",
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED: "the properties, with keys and tags, have more than 32,767 bytes",
    PutMessageStatus.OS_PAGE_CACHE_BUSY: "page_cache_busy says that the machine cannot take more now",
    PutMessageStatus.WHEEL_TIMER_NOT_ENABLE: "the message is for a time, and this store has no timer wheel",
}


class Refusal(NamedTuple):
    """Why a message is not put: the engine's status, and where that has several reasons, which."""

    status: PutMessageStatus
    reason: str = ""

    @property
    def result(self) -> PutMessageResult:
        """The outcome of the put."""
        return PutMessageResult(self.status, reason=self.reason)


class PutMessageResult(NamedTuple):
    """The outcome of a put. Of a batch, the offsets are those of its first message, and
    `size_bytes` that of all. Without a stored message the offsets are -1."""

    status: PutMessageStatus
    physical_offset: int = -1
    queue_offset: int = -1
    size_bytes: int = 0
    store_timestamp_ms: int = 0
    topic: bytes = b""
    queue_id: int = 0
    store_host: Host | None = None
    msg_num: int = 0
    offsets: tuple[int, ...] = ()
    """The physical offsets of a batch's messages."""
    reason: str = ""
    """Why nothing was stored, if the status has several reasons; see `remark`."""

    def __repr__(self) -> str:
        *facts, _ = self._asdict().items()
        shown = [f"{name}={value!r}" for name, value in (*facts, ("remark", self.remark))]
        return f"{type(self).__name__}({', '.join(shown)})"

    @property
    def is_stored(self) -> bool:
        """Whether the messages are in the log."""
        return self.status in STORED

    @property
    def remark(self) -> str:
        """What the status means in this store, in words, with the size and the limit where
        something is too large; empty for PUT_OK and for statuses that only a broker returns."""
        return self.reason or _REMARKS.get(self.status, "")

    @property
    def msg_id(self) -> str | None:
        """The server's MessageID; of a batch those of all messages with commas between, as in the
        broker. None if nothing was stored."""
        if self.store_host is None:
            return None
        return ",".join(str(MessageId(self.store_host, at)) for at in self.offsets or (self.physical_offset,))


def illegal(reason: str) -> Refusal:
    """Refuses a message that no store holds."""
    return Refusal(PutMessageStatus.MESSAGE_ILLEGAL, reason)
