"""Message ids as hexadecimal text: the server's (store host, physical offset) and the client's
(UNIQ_KEY).

Source: ``docs/formats/message-id.md``; MessageDecoder.createMessageId and decodeMessageId,
MessageClientIDSetter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from logdex.errors import UsageError
from logdex.primitives.host import Host

_HEX = re.compile(r"[0-9A-Fa-f]+")
_DIGITS = {32: 4, 56: 16}
"""The size of the address in bytes, by the number of hexadecimal digits of an id of either kind."""


@dataclass(frozen=True, slots=True)
class MessageId:
    """The server's MessageID: the broker that stored the message, and its physical offset."""

    store_host: Host
    physical_offset: int

    def __str__(self) -> str:
        """32 hexadecimal digits, or 56 with an IPv6 host, as the broker writes them."""
        offset = self.physical_offset & (1 << 64) - 1
        return f"{self.store_host.pack().hex()}{offset:016x}".upper()

    @staticmethod
    def parse(text: str) -> MessageId:
        """Parses 32 or 56 hexadecimal digits. Raises `UsageError` for any other text."""
        data, _ = _bytes_of(text, "a MessageID")
        return MessageId(Host.unpack(data[:-8]), int.from_bytes(data[-8:], "big", signed=True))

    @staticmethod
    def of(wanted: str | MessageId) -> MessageId:
        """Returns a MessageID, parsed if it is a text. Raises `UsageError` for anything else."""
        if not isinstance(wanted, str | MessageId):
            raise UsageError(f"a MessageID is a str, not {type(wanted).__name__}", hint="a message has it as msg_id")
        return MessageId.parse(wanted) if isinstance(wanted, str) else wanted


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """The parts of a client's message id.

    `month_ms` is the time since the start of the month in the *client's* time zone, in
    milliseconds. Neither the month nor the time zone is stored, so `time_near` needs a reference
    time.
    """

    address: bytes
    process_id: int
    """The low 16 bits of the client's process id."""
    class_loader_hash: int
    month_ms: int
    counter: int

    def __str__(self) -> str:
        """The 32 or 56 digits that were parsed, in upper case."""
        return (
            f"{self.address.hex()}{self.process_id:04x}{self.class_loader_hash & 0xFFFFFFFF:08x}"
            f"{self.month_ms & 0xFFFFFFFF:08x}{self.counter:04x}"
        ).upper()

    @property
    def host(self) -> str:
        """The client's address as text."""
        return str(Host(self.address, 0)).rpartition(":")[0].strip("[]")

    def time_near(self, reference_ms: int, *, utc_offset_minutes: int = 0) -> int:
        """When the id was made, in milliseconds since the epoch.

        The id must have been made at most a month before `reference_ms` (the message's born or
        store time), in a time zone `utc_offset_minutes` ahead of UTC.
        """
        zone = timezone(timedelta(minutes=utc_offset_minutes))
        # A client's clock may run slightly ahead of the broker's.
        latest = datetime.fromtimestamp(reference_ms / 1000, zone) + timedelta(hours=1)
        start = latest.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        if start + timedelta(milliseconds=self.month_ms) > latest:
            start = (start - timedelta(days=1)).replace(day=1)
        return round(start.timestamp()) * 1000 + self.month_ms


def parse_unique_key(text: str | bytes) -> UniqueKey:
    """The parts of a UNIQ_KEY that a client of RocketMQ made. Raises `UsageError` for any other
    text.

    Other clients may use any text; 32 digits of theirs return meaningless parts.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    data, size = _bytes_of(text, "a client's message id")
    return UniqueKey(
        address=data[:size],
        process_id=int.from_bytes(data[size : size + 2], "big"),
        class_loader_hash=int.from_bytes(data[size + 2 : size + 6], "big", signed=True),
        month_ms=int.from_bytes(data[size + 6 : size + 10], "big", signed=True),
        counter=int.from_bytes(data[size + 10 :], "big"),
    )


def _bytes_of(text: str, what: str) -> tuple[bytes, int]:
    """The bytes of an id, and the size of its address."""
    if len(text) not in _DIGITS or not _HEX.fullmatch(text):
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        raise UsageError(f"{shown!r} is not {what}, which has 32 or 56 hexadecimal digits")
    return bytes.fromhex(text), _DIGITS[len(text)]
