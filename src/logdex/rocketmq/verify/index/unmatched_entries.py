"""Entries of IndexFiles that match none of the log's next keys: why they are there, or the findings
about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from logdex.errors import StoreError
from logdex.layout.rocketmq import HOST_V4_SIZE_BYTES, HOST_V6_SIZE_BYTES, MESSAGE_HEAD, SYS_FLAG_BORN_HOST_V6
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.index_file.index_keys import message_key_hashes
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify.checks import Collector
from logdex.rocketmq.verify.damage import Damage
from logdex.rocketmq.verify.index.index_disk import IndexDisk, IndexRows

_LOOK_UPS_MAX = 1_000_000
"""The number of such entries whose messages are read."""


class UnmatchedEntries:
    """Looks at such entries. Not thread-safe."""

    def __init__(self, config: StoreConfig, log: CommitLog, damage: Damage, out: Collector) -> None:
        self.repeats = 0
        """The number of entries that repeat one of the same key and message."""
        self._expired = 0
        self._look_ups = 0
        self._config = config
        self._log = log
        self._damage = damage
        self._out = out

    def summary(self) -> Iterator[tuple[str, int, str]]:
        """Yields (kind of information, number of entries, text about them)."""
        yield "index-not-checked", self._look_ups - _LOOK_UPS_MAX, "not looked up, because no next key fits"
        yield "index-repeated-entries", self.repeats, "of the same key and message as one before"
        yield "index-expired-entries", self._expired, "of messages before the log's start"

    def explain(self, disk: IndexDisk, rows: IndexRows, which: npt.NDArray[np.bool_]) -> None:
        """Counts or reports those of the entries in the mask `which`, which match none of the log's
        next keys."""
        gone = which & (rows.phy_offset >= 0) & (rows.phy_offset < self._log.min_offset)
        self._expired += int(gone.sum())
        unexplained = np.flatnonzero(which & ~gone & ~self._damage.covers(rows.phy_offset))
        hashes, hashes_of = None, -1
        self._look_ups += len(unexplained)
        room = max(_LOOK_UPS_MAX - self._look_ups + len(unexplained), 0)
        for i in unexplained[:room].tolist():
            offset, key_hash = int(rows.phy_offset[i]), int(rows.key_hash[i])
            if offset != hashes_of:
                hashes, hashes_of = self._hashes_of(offset), offset
            if hashes is not None and key_hash in hashes:
                self.repeats += 1
            elif hashes is not None:
                self.suspect_keys(offset, hashes[0] if hashes else "none", key_hash)
            else:
                self._out.find(
                    "index-extra-entry",
                    disk.path,
                    disk.position(rows.first + i),
                    f"entry {rows.first + i} is of no message",
                    expected="an entry of a message that the log has",
                    found=f"hash {key_hash}, physical offset {offset}",
                    mend=self._out.rebuild,
                )

    def message_at(self, offset: int) -> StoredMessage | None:
        """Returns the message at a physical offset, or None if there is none."""
        try:
            message = self._log.read_message(offset, check_crc=False)
        except StoreError:
            return None
        return message if message.physical_offset == offset else None

    def has(self, offset: int, key_hash: int) -> bool:
        """Whether a message begins at a physical offset and has a key with this hash."""
        return key_hash in (self._hashes_of(offset) or ())

    def _hashes_of(self, offset: int) -> list[int] | None:
        """Returns the hashes of all keys of the message at a physical offset, that of its tag
        included; None if there is no message."""
        message = self.message_at(offset)
        if message is None:
            return None
        return message_key_hashes(message, replace(self._config.dialect, tags_in_index=True))

    def suspect_keys(self, offset: int, found: object, expected: int) -> None:
        """Reports a message whose keys have changed: the hash chains agree with an entry that is of
        none of its keys."""
        file = self._log.file_of(offset)
        if file is not None:
            self._out.suspect(
                offset,
                "message-keys",
                file.path,
                offset - file.start_offset,
                "its index entries are of other keys: its topic or properties have changed",
                f"a key of hash {expected}",
                f"hash {found}",
            )

    def suspect_time(self, offset: int, store_ms: int, off_by_s: int) -> None:
        """Reports a message whose entries all agree on a time other than its own."""
        file = self._log.file_of(offset)
        if file is None:
            return
        at = MESSAGE_HEAD.offset_of("sys_flag")
        sys_flag = int.from_bytes(self._log.read(offset + at, 4), "big")
        host = HOST_V6_SIZE_BYTES if sys_flag & SYS_FLAG_BORN_HOST_V6 else HOST_V4_SIZE_BYTES
        self._out.suspect(
            offset,
            "message-store-timestamp",
            file.path,
            offset - file.start_offset + MESSAGE_HEAD.size_bytes + host,
            f"all IndexFile entries of this message are {off_by_s} s off its storeTimestamp",
            f"about {store_ms + 1000 * off_by_s}",
            store_ms,
        )

    def find_beyond(self, disk: IndexDisk, rows: IndexRows, row: int, end_offset: int) -> None:
        """Reports the entry at `row`, which points behind the log's end."""
        self._out.find(
            "index-extra-entry",
            disk.path,
            disk.position(rows.first + row),
            f"entry {rows.first + row}, and perhaps more of this file, points behind the log's end",
            expected=f"a physical offset below {end_offset}",
            found=int(rows.phy_offset[row]),
            mend=f"{self._out.rebuild}; if the log's last file was cut or removed, restore it instead",
        )
