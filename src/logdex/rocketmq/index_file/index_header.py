"""The header of an IndexFile, its first 40 bytes. Source: ``docs/formats/index-file.md``;
IndexHeader."""

from __future__ import annotations

from typing import NamedTuple

from logdex.errors import TruncatedError
from logdex.layout.rocketmq import INDEX_HEADER


class IndexHeader(NamedTuple):
    """An IndexFile's header. Times are in ms since the epoch, offsets in bytes of the CommitLog.

    `index_count` starts at 1 in memory, because entry 0 is never used. A file without entries may
    have 0 on disk.
    """

    begin_timestamp_ms: int = 0
    end_timestamp_ms: int = 0
    begin_phy_offset: int = 0
    end_phy_offset: int = 0
    hash_slot_count: int = 0
    index_count: int = 1

    @staticmethod
    def unpack(data: bytes, *, path: str = "<bytes>") -> IndexHeader:
        """Decodes the header as the engine loads it: a count below 1 becomes 1.

        Raises `TruncatedError` below 40 bytes.
        """
        if len(data) < INDEX_HEADER.size_bytes:
            raise TruncatedError(
                "the file is too short for an index header",
                path=path,
                position=len(data),
                field="header",
                expected=f"{INDEX_HEADER.size_bytes} bytes",
                found=len(data),
            )
        header = IndexHeader(*INDEX_HEADER.struct.unpack_from(data))
        return header if header.index_count > 0 else header._replace(index_count=1)

    def pack(self, empty_index_count: int = 1) -> bytes:
        """Returns the 40 bytes. A file without entries gets `empty_index_count` as its count (see
        `Dialect`)."""
        count = self.index_count if self.index_count > 1 else empty_index_count
        return INDEX_HEADER.pack(*self[:5], count)

    @property
    def entry_count(self) -> int:
        """The number of entries in the file."""
        return self.index_count - 1
