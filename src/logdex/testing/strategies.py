"""Hypothesis strategies for stored messages of RocketMQ.

They cover every sysFlag, both magics, both kinds of hosts, malformed properties and all kinds of
text.
"""

from __future__ import annotations

from hypothesis import strategies as st

from logdex.layout.rocketmq import MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2, SYS_FLAG_BORN_HOST_V6, SYS_FLAG_STORE_HOST_V6
from logdex.primitives.crc import body_crc
from logdex.primitives.host import Host
from logdex.rocketmq.message.stored_message import StoredMessage, encode_message
from logdex.rocketmq.message.tags_code import SCHEDULE_TOPIC_NAME

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)

_TEXT = st.one_of(
    st.binary(max_size=24),
    st.text(max_size=12).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.from_regex(rb"[A-Za-z0-9_ -]{0,40}", fullmatch=True),
)
_PROPERTY_NAMES = st.one_of(st.sampled_from([b"KEYS", b"TAGS", b"UNIQ_KEY", b"DELAY", b"KEYX", b"WAIT", b""]), _TEXT)
_SEPARATORS = st.sampled_from([b"\x01", b"\x01", b"\x01", b"", b"\x02"])
_DELAYS = st.sampled_from([b"1", b"18", b"40", b"-3", b"0", b"+2", b"", b"x", b"99999999999"])
_TOPICS = st.one_of(st.sampled_from([b"TopicA", b"TopicB", SCHEDULE_TOPIC_NAME]), st.binary(max_size=40))


@st.composite
def properties_raw(draw: st.DrawFn) -> bytes:
    """Raw properties, well-formed or not, with or without the last separator."""
    parts = []
    for _ in range(draw(st.integers(0, 6))):
        name = draw(_PROPERTY_NAMES)
        value = draw(_DELAYS) if name == b"DELAY" else draw(_TEXT)
        parts.append(name + draw(_SEPARATORS) + value)
    return b"\x02".join(parts) + draw(st.sampled_from([b"", b"\x02"]))


@st.composite
def hosts(draw: st.DrawFn, size_bytes: int) -> Host:
    """A host with an address of `size_bytes` bytes."""
    return Host(draw(st.binary(min_size=size_bytes, max_size=size_bytes)), draw(st.integers(0, 65535)))


@st.composite
def stored_messages(draw: st.DrawFn, *, body_size_max: int = 64) -> StoredMessage:
    """Any message with consistent sizes and a correct body CRC."""
    sys_flag = draw(st.integers(0, 0x7FF))
    wide = draw(st.booleans())
    body = draw(st.binary(max_size=body_size_max))
    message = StoredMessage(
        size_bytes=0,
        magic=MESSAGE_MAGIC_V2 if wide else MESSAGE_MAGIC_V1,
        body_crc=body_crc(body),
        queue_id=draw(st.one_of(st.integers(0, 3), INT32)),
        flag=draw(INT32),
        queue_offset=draw(st.one_of(st.integers(0, 5), INT64)),
        physical_offset=draw(INT64),
        sys_flag=sys_flag,
        born_timestamp_ms=draw(INT64),
        born_host=draw(hosts(16 if sys_flag & SYS_FLAG_BORN_HOST_V6 else 4)),
        store_timestamp_ms=draw(st.one_of(st.integers(1_600_000_000_000, 1_800_000_000_000), st.integers(-1000, 1000))),
        store_host=draw(hosts(16 if sys_flag & SYS_FLAG_STORE_HOST_V6 else 4)),
        reconsume_times=draw(INT32),
        prepared_transaction_offset=draw(INT64),
        body=body,
        topic=draw(_TOPICS),
        properties_raw=draw(properties_raw()),
    )
    fields = {name: getattr(message, name) for name in StoredMessage.__dataclass_fields__}
    return StoredMessage(**fields | {"size_bytes": len(encode_message(message))})
