"""The checkpoint: the time, and in 5.x the offset, up to which a store is flushed.

It has 4096 bytes, most of them zero. Source: ``docs/formats/checkpoint.md``; StoreCheckpoint.
Fields that a version does not know are zero.
"""

from __future__ import annotations

from typing import NamedTuple

from logdex import limits
from logdex.errors import TruncatedError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import StrPath, path_text
from logdex.layout.rocketmq import CHECKPOINT, CHECKPOINT_FILE_SIZE_BYTES

_SKEW_MS = 3_000


class StoreCheckpoint(NamedTuple):
    """The six fields. Times are in ms since the epoch, offsets in bytes of the CommitLog."""

    physic_msg_timestamp_ms: int = 0
    logics_msg_timestamp_ms: int = 0
    index_msg_timestamp_ms: int = 0
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0
    logics_physical_offset: int = 0

    @staticmethod
    def read(path: StrPath, *, env: Env = DEFAULT_ENV) -> StoreCheckpoint:
        """Reads the checkpoint at `path`. Raises `TruncatedError` for a file without all fields."""
        path = path_text(path)
        return StoreCheckpoint.unpack(env.read_file(path, limits.CHECKPOINT_SIZE_BYTES_MAX), path=path)

    @staticmethod
    def unpack(data: bytes, *, path: str = "<bytes>") -> StoreCheckpoint:
        """Decodes the file's bytes. Raises `TruncatedError` if they are too short."""
        if len(data) < CHECKPOINT.size_bytes:
            raise TruncatedError(
                "the file is too short",
                path=path,
                position=len(data),
                field="checkpoint",
                expected=f"{CHECKPOINT_FILE_SIZE_BYTES} bytes",
                found=len(data),
                hint="move the file away: a store can be read without a checkpoint",
            )
        return StoreCheckpoint(*CHECKPOINT.struct.unpack_from(data))

    def pack(self) -> bytes:
        """The file's bytes."""
        return CHECKPOINT.pack(*self).ljust(CHECKPOINT_FILE_SIZE_BYTES, b"\0")

    @property
    def min_timestamp_ms(self) -> int:
        """getMinTimestamp: all earlier messages are flushed in CommitLog and ConsumeQueues; at
        least 0."""
        return max(min(self.physic_msg_timestamp_ms, self.logics_msg_timestamp_ms) - _SKEW_MS, 0)

    def problems(self, *, last_store_timestamp_ms: int, log_end_offset: int) -> list[tuple[str, str, int]]:
        """Invalid fields as (field, expected, found): negative ones, and those beyond the
        CommitLog's contents.

        The limits are the store time of the last message and the offset where the CommitLog ends.
        """
        found = []
        for name, value in zip(self._fields, self, strict=True):
            limit = last_store_timestamp_ms if name.endswith("_ms") else log_end_offset
            unit = "the last message's storeTimestamp" if name.endswith("_ms") else "the end of the log"
            # masterFlushedOffset belongs to the master: it may exceed what a slave has.
            if value < 0:
                found.append((name, "0 or more", value))
            elif value > limit and name != "master_flushed_offset":
                found.append((name, f"at most {limit}, {unit}", value))
        return found
