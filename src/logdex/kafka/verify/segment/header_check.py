"""Checks the headers of a window's batches. Their checksums are right, so what is found here was
written that way."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from logdex.kafka.verify.checks import RESTORE_BATCH, RESTORE_EPOCH, Collector
from logdex.kernels.kafka.batch_columns import BatchColumns
from logdex.layout.kafka import (
    BATCH_CODEC_MASK,
    BATCH_CODEC_MAX,
    BATCH_DELETE_HORIZON,
    BATCH_KNOWN_ATTRIBUTES,
    BATCH_LOG_APPEND_TIME,
    LEGACY_CODEC_MAX,
    MAGIC_V1,
    MAGIC_V2,
)

_MENDS = {"batch-leader-epoch": RESTORE_EPOCH, "batch-offset-delta": ""}
"""Where a batch need not be restored. Empty: a recovery leaves it out."""


def check_headers(columns: BatchColumns, path: str, out: Collector) -> None:
    """Reports findings for the batches of a window whose headers hold impossible or contradictory
    values."""
    attributes, magic = columns.attributes, columns.magic
    is_v2 = magic == MAGIC_V2
    delta = columns.last_offset - columns.base_offset
    _tell(columns, is_v2 & (delta < 0), "batch-offset-delta", "0 or above", delta, path, out)
    extra = columns.count.astype(np.int64) - delta - 1
    wrong = is_v2 & (delta >= 0) & ((columns.count < 0) | (extra > 0))
    _tell(columns, wrong, "batch-count", "0 to the last offset delta + 1", columns.count, path, out)
    legacy_known = np.where(magic == MAGIC_V1, BATCH_CODEC_MASK | BATCH_LOG_APPEND_TIME, BATCH_CODEC_MASK)
    known = np.where(is_v2, BATCH_KNOWN_ATTRIBUTES, legacy_known)
    codec = attributes & BATCH_CODEC_MASK
    wrong = (attributes & ~known != 0) | (codec > np.where(is_v2, BATCH_CODEC_MAX, LEGACY_CODEC_MAX))
    _tell(columns, wrong, "batch-attributes", "known bits and codec", attributes, path, out)
    wrong = is_v2 & (columns.leader_epoch < -1)
    _tell(columns, wrong, "batch-leader-epoch", "-1 or above", columns.leader_epoch, path, out)
    created = is_v2 & (attributes & (BATCH_LOG_APPEND_TIME | BATCH_DELETE_HORIZON) == 0) & (columns.count > 0)
    wrong = created & (columns.max_timestamp_ms < columns.base_timestamp_ms)
    _tell(columns, wrong, "batch-timestamp", "the first timestamp or above", columns.max_timestamp_ms, path, out)


def _tell(
    columns: BatchColumns,
    wrong: npt.NDArray[np.bool_],
    check: str,
    expected: str,
    found: npt.NDArray[np.int64] | npt.NDArray[np.int32],
    path: str,
    out: Collector,
) -> None:
    if not wrong.any():
        return
    for place in out.some(check, np.flatnonzero(wrong)):
        out.find(
            check,
            path,
            int(columns.position[place]),
            f"a batch's header that cannot be, offset {int(columns.base_offset[place])}",
            expected=expected,
            found=int(found[place]),
            mend=_MENDS.get(check, RESTORE_BATCH) or out.recover,
        )
