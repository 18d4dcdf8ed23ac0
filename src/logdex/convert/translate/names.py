"""How what one format has is carried by the other: the names, and the texts that hold the rest.

A RocketMQ message becomes a record whose headers are its properties, and one header more,
`MESSAGE_HEADER`, with everything that a record has no place for. A Kafka record becomes a message
whose properties are those of its headers that a property can hold, and one property more,
`RECORD_PROPERTY`, with the whole record but its value. Where one of these is found, a conversion
back restores what was there, and the other headers or properties are ignored or restored as they
are.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import NamedTuple

from logdex.kafka.batch.record_format import header_key_bytes

MESSAGE_HEADER = "rocketmq.message"
RECORD_PROPERTY = "kafka.record"

MESSAGE_FIELDS = (
    "flag",
    "sysFlag",
    "bornTimestamp",
    "bornHost",
    "storeTimestamp",
    "storeHost",
    "reconsumeTimes",
    "preparedTransactionOffset",
    "topic",
)
"""What the header holds, in this order, as ``name=value`` with semicolons between; the topic
last."""

_RESERVED = re.compile(r"KEYS|WAIT|DELAY|RETRY_TOPIC|REAL_.*|PGROUP|TRAN_.*|UNIQ_KEY|INNER_.*|TIMER_.*|__.*|kafka\..*")
_NOT_STORABLE = re.compile("[\x00-\x02\ud800-\udfff]")
_ILLEGAL = re.compile("[^A-Za-z0-9._-]")

Headers = tuple[tuple[str | bytes, bytes | None], ...]


def kafka_topic(topic: str) -> str:
    """Returns a name that Kafka allows for a topic: other characters become ``_25``, their
    bytes."""
    name = _ILLEGAL.sub(lambda found: "".join(f"_{byte:02X}" for byte in found[0].encode()), topic)
    return f"_2E{name[1:]}" if name in (".", "..") else name


class StoredFields(NamedTuple):
    """What `MESSAGE_HEADER` holds."""

    flag: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: str
    store_timestamp_ms: int
    store_host: str
    reconsume_times: int
    prepared_transaction_offset: int
    topic: str


def parse_message_header(value: bytes | None) -> StoredFields | None:
    """Returns what the header holds, None if it is not one that a conversion made."""
    try:
        parts = (value or b"").decode().split(";", len(MESSAGE_FIELDS) - 1)
        pairs = [part.partition("=") for part in parts]
        if tuple(name for name, _, _ in pairs) != MESSAGE_FIELDS:
            return None
        texts = [text for _, _, text in pairs]
        numbers = {place: int(texts[place]) for place in (0, 1, 2, 4, 6, 7)}
    except ValueError:
        return None
    return StoredFields(*(numbers.get(place, text) for place, text in enumerate(texts)))  # type: ignore[arg-type]


def readable(headers: Headers) -> dict[str, str]:
    """Returns the headers that can be properties under the same names: text, each name once, none
    that the engine itself reads."""
    found: dict[str, str] = {}
    for name, value in headers:
        text = None if value is None else _text(value)
        if text is not None and isinstance(name, str) and _is_free(name):
            found.setdefault(name, text)
    return found


def _is_free(name: str) -> bool:
    """Whether a property may have a name."""
    return bool(name) and not _NOT_STORABLE.search(name) and _RESERVED.fullmatch(name) is None


def storable_key(key: bytes | None) -> str | None:
    """Returns a record's key if the property KEYS can hold it as a single key."""
    text = None if not key else _text(key)
    return None if text is None or " " in text else text


def _text(value: bytes) -> str | None:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return None if _NOT_STORABLE.search(text) else text


class RecordFields(NamedTuple):
    """What `RECORD_PROPERTY` holds."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    is_null: bool
    """Whether the value is null, which a body cannot be."""
    headers: Headers


def format_record(fields: RecordFields) -> str:
    """Returns the text of the property: JSON in ASCII."""
    headers = [[_pack(header_key_bytes(name)), _pack(value)] for name, value in fields.headers]
    given = {"o": fields.offset, "t": fields.timestamp_ms, "k": _pack(fields.key), "n": fields.is_null, "h": headers}
    return json.dumps(given, separators=(",", ":"))


def parse_record(text: str) -> RecordFields | None:
    """Returns what the property holds, None if it is not one that a conversion made."""
    try:
        given = json.loads(text)
        headers = tuple((_unpack(name) or b"", _unpack(value)) for name, value in given["h"])
        return RecordFields(int(given["o"]), int(given["t"]), _unpack(given["k"]), bool(given["n"]), headers)
    except (ValueError, KeyError, TypeError, binascii.Error):
        return None


def _pack(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode("ascii")


def _unpack(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value, validate=True)
