"""What every opened store or log offers to who wants its messages or records, whatever the format,
and whether it is a snapshot or written by this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from logdex.frames.scan_frames import Lossy, telling

if TYPE_CHECKING:
    import pyarrow as pa

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)


class Scan(Lossy, Protocol[Item_co]):
    """What a scan offers in all formats, see `ScanFrames`."""

    def __iter__(self) -> Iterator[Item_co]:
        """Yields the messages or records, in log order."""

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Returns some columns (None: all) as Arrow batches."""


class OpenedLog(ABC, Generic[Item]):
    """The base of `StoreSnapshot`, `MessageStore`, `LogDirSnapshot`, `PartitionSnapshot` and `Log`.

    Besides what stands here each has `query`, which returns the messages or records with exactly a
    key, newest first. It takes a topic, too, where there may be several.
    """

    @abstractmethod
    def topics(self) -> dict[str, list[int]]:
        """Returns the queue ids, or partition numbers, by topic."""

    @abstractmethod
    def scan(self) -> Scan[Item]:
        """Returns everything that passes a filter, in log order, to iterate or to read as a
        table."""

    def __iter__(self) -> Iterator[Item]:
        """Yields all messages or records, in log order: `scan` without a filter. It warns at its
        end with `IncompleteReadWarning` of what could not be read."""
        scan = self.scan()
        return telling(scan, [scan])

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Returns some columns (None: all) of all messages or records, as `to_arrow` of a scan
        does. It warns at its end with `IncompleteReadWarning` of what could not be read."""
        return self.scan().to_arrow(columns)
