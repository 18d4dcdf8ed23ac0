"""Message ids: the server's (store host and physical offset) and the client's (UNIQ_KEY), both as hexadecimal text.

Source: ``docs/formats/message-id.md``; MessageDecoder.createMessageId and decodeMessageId, MessageClientIDSetter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from logdex.errors import UsageError
from logdex.primitives.host import Host

_HEX = re.compile(r"[0-9A-Fa-f]+")
_DIGITS = {32: 4, 56: 16}
"""Bytes of the address by hexadecimal digits of an id, of either kind."""


@dataclass(frozen=True, slots=True)
class MessageId:
    """The server's MessageID: the broker that stored the message, and where in its CommitLog."""

    store_host: Host
    physical_offset: int

    def __str__(self) -> str:
        """32 hexadecimal digits, 56 with an IPv6 host, as the broker writes them."""
        offset = self.physical_offset & (1 << 64) - 1
        return f"{self.store_host.pack().hex()}{offset:016x}".upper()

    @staticmethod
    def parse(text: str) -> MessageId:
        """From 32 or 56 hexadecimal digits; `UsageError` for anything else."""
        data, _ = _bytes_of(text, "a MessageID")
        return MessageId(Host.unpack(data[:-8]), int.from_bytes(data[-8:], "big", signed=True))


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A client's message id taken apart.

    `month_ms` counts from the start of the month in the *client's* time zone, in milliseconds; neither the month nor
    the zone is stored, so a time needs a moment near it (see `time_near`).
    """

    address: bytes
    process_id: int
    """The low 16 bits of the client's process id."""
    class_loader_hash: int
    month_ms: int
    counter: int

    def __str__(self) -> str:
        """The 32 or 56 digits that it was parsed from, in capitals."""
        return (
            f"{self.address.hex()}{self.process_id:04x}{self.class_loader_hash & 0xFFFFFFFF:08x}"
            f"{self.month_ms & 0xFFFFFFFF:08x}{self.counter:04x}"
        ).upper()

    @property
    def host(self) -> str:
        """The client's address as text."""
        return str(Host(self.address, 0)).rpartition(":")[0].strip("[]")

    def time_near(self, reference_ms: int, *, utc_offset_minutes: int = 0) -> int:
        """When it was made, in ms since the epoch, if that was at most a month before `reference_ms` (the message's
        born or store time, say) and the client's zone was `utc_offset_minutes` ahead of UTC."""
        zone = timezone(timedelta(minutes=utc_offset_minutes))
        # A client's clock may run a little ahead of the broker's.
        latest = datetime.fromtimestamp(reference_ms / 1000, zone) + timedelta(hours=1)
        start = latest.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        if start + timedelta(milliseconds=self.month_ms) > latest:
            start = (start - timedelta(days=1)).replace(day=1)
        return round(start.timestamp()) * 1000 + self.month_ms


def parse_unique_key(text: str | bytes) -> UniqueKey:
    """The parts of a UNIQ_KEY that RocketMQ's own clients made; `UsageError` for anything else. Other clients may use
    any text, and 32 digits that are not theirs give parts without meaning."""
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
    """The bytes of an id and how many of them are the address."""
    if len(text) not in _DIGITS or not _HEX.fullmatch(text):
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        raise UsageError(f"{shown!r} is not {what}: 32 or 56 hexadecimal digits")
    return bytes.fromhex(text), _DIGITS[len(text)]
