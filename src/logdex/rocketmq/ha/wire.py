"""The bytes between a master and a slave.

Both sides repeat one kind of structure: the slave sends where its log ends, the master parts of its
log. Source: ``docs/formats/ha-wire.md``; DefaultHAConnection, DefaultHAClient.
"""

from __future__ import annotations

from typing import NamedTuple

from logdex.errors import ProtocolError
from logdex.layout.rocketmq import HA_REPORT, HA_TRANSFER
from logdex.limits import HA_BODY_SIZE_BYTES_MAX
from logdex.rocketmq.files.offset_files import OFFSET_MAX

LAST_FILE = 0
"""As a slave's first report: asks for the log from the start of the master's last file on."""


class Transfer(NamedTuple):
    """A part of the master's log from a physical offset on. It begins and ends anywhere in a
    message. Without a body it is a heartbeat: the master has nothing more to send."""

    physical_offset: int
    body: bytes

    @property
    def end_offset(self) -> int:
        """The physical offset after the part."""
        return self.physical_offset + len(self.body)


def pack_transfer(physical_offset: int, body: bytes = b"") -> bytes:
    """Returns the bytes of a transfer; without a body, of a heartbeat."""
    return HA_TRANSFER.pack(physical_offset, len(body)) + body


def pack_report(max_offset: int) -> bytes:
    """Returns the bytes of a slave's report."""
    return HA_REPORT.pack(max_offset)


class TransferDecoder:
    """Makes transfers of the bytes that a master sends, however they are cut.

    The first transfer begins at `start`, if it is given, and each other one where the one before
    ended. Keeps at most one transfer in memory.
    """

    def __init__(self, peer: str, start: int | None = None) -> None:
        self.next_offset = start
        """Where the next transfer must begin; None before the first one if any offset will do."""
        self._peer = peer
        self._kept = bytearray()

    def feed(self, data: bytes) -> list[Transfer]:
        """Returns the transfers that `data` completes. Raises `ProtocolError`, now or at the next
        call, for bytes that no master sends."""
        self._kept += data
        found, at = [], 0
        while len(self._kept) - at >= HA_TRANSFER.size_bytes:
            offset, size = HA_TRANSFER.struct.unpack_from(self._kept, at)
            self._check(offset, size)
            body_at = at + HA_TRANSFER.size_bytes
            if len(self._kept) - body_at < size:
                break
            at = body_at + size
            found.append(Transfer(offset, bytes(self._kept[body_at:at])))
            self.next_offset = offset + size
        del self._kept[:at]
        return found

    def _check(self, offset: int, size: int) -> None:
        if not 0 <= size <= HA_BODY_SIZE_BYTES_MAX:
            self._refuse(f"a transfer of {size} bytes, at most {HA_BODY_SIZE_BYTES_MAX} are allowed")
        if not 0 <= offset <= OFFSET_MAX - size:
            self._refuse(f"a transfer at offset {offset}")
        if self.next_offset is not None and offset != self.next_offset:
            self._refuse(f"a transfer at offset {offset}, where {self.next_offset} comes next")

    def _refuse(self, what: str) -> None:
        raise ProtocolError(
            f"{self._peer} sent {what}", hint="is this the HA port of a RocketMQ master (10912 by default)?"
        )


class ReportDecoder:
    """Makes reports of the bytes that a slave sends, however they are cut."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._kept = b""

    def feed(self, data: bytes) -> list[int]:
        """Returns the offsets that `data` completes. Raises `ProtocolError` for a negative one."""
        kept = self._kept + data
        whole = len(kept) - len(kept) % HA_REPORT.size_bytes
        self._kept = kept[whole:]
        offsets = [offset for (offset,) in HA_REPORT.struct.iter_unpack(kept[:whole])]
        for offset in offsets:
            if offset < 0:
                raise ProtocolError(f"{self._peer} reported the offset {offset}")
        return offsets
