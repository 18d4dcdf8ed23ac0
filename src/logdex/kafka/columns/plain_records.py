"""A few decoded records, for a reader that wants records and no Arrow batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from logdex.kafka.batch.record import Record


class PlainRecords:
    """Records in log order. It answers what a scan asks of an Arrow batch, so that a filter needs
    to be written once."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    def slice(self, start: int, length: int) -> PlainRecords:
        """Returns at most `length` records from place `start` on."""
        return PlainRecords(self.records[start : start + length])

    def filter(self, keep: npt.NDArray[np.bool_]) -> PlainRecords:
        """Returns the records at which `keep` is true."""
        return PlainRecords([self.records[place] for place in np.flatnonzero(keep).tolist()])

    def column(self, name: str) -> PlainColumn:
        """Returns a field of all records."""
        return PlainColumn([getattr(record, name) for record in self.records])


class PlainColumn:
    """A field of some records: numbers, flags or bytes."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def to_numpy(self, *, zero_copy_only: bool = False) -> npt.NDArray[Any]:
        """Returns numbers or flags as an array."""
        return np.array(self.values, np.int64 if not isinstance(self.values[0], bool) else np.bool_)
