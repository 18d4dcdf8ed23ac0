"""A window of Kafka batches as columns, which the batch scan fills and every `derive_*` of Kafka
reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]


class BatchColumns(NamedTuple):
    """One element per batch. An uncompressed record or a wrapper of magic 0 or 1 is a batch too.

    `position` and `size` are in bytes, and `size` includes the 12 bytes of base offset and length.
    For magic 0 and 1, `base_offset` and `last_offset` are both the stored offset,
    `base_timestamp_ms` and `max_timestamp_ms` the stored timestamp (-1 in magic 0), `count` is 1,
    or -1 for a wrapper, and producer fields and `leader_epoch` are -1. `crc` is the stored one,
    unsigned. `control_type`, `coordinator_epoch` and `control_timestamp_ms` are those of a control
    batch's first record; the type is -1 for other batches and for a control batch without records.
    """

    position: Int64s
    base_offset: Int64s
    last_offset: Int64s
    base_timestamp_ms: Int64s
    max_timestamp_ms: Int64s
    producer_id: Int64s
    control_timestamp_ms: Int64s
    crc: Int64s
    size: Int32s
    leader_epoch: Int32s
    magic: Int32s
    attributes: Int32s
    producer_epoch: Int32s
    base_sequence: Int32s
    count: Int32s
    control_type: Int32s
    coordinator_epoch: Int32s


WIDE_COLUMNS = frozenset(BatchColumns._fields[:8])
"""The columns of int64; the others are int32."""


def make_batch_columns(batches: int) -> BatchColumns:
    """Columns for `batches` batches."""

    def column(name: str) -> npt.NDArray[Any]:
        return np.zeros(batches, np.int64 if name in WIDE_COLUMNS else np.int32)

    return BatchColumns(*map(column, BatchColumns._fields))


def pick_columns(columns: BatchColumns, places: slice | npt.NDArray[np.bool_]) -> BatchColumns:
    """The batches at `places`: views for a slice, copies for a mask."""
    return BatchColumns._make(column[places] for column in columns)


def join_columns(parts: Sequence[BatchColumns]) -> BatchColumns:
    """Concatenates windows, of which there must be at least one."""
    return parts[0] if len(parts) == 1 else BatchColumns._make(map(np.concatenate, zip(*parts, strict=True)))
