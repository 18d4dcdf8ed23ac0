"""Times as Arrow's timestamps, which queries compare with dates and times."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")
"""The type of a time in a query: Spark takes no other one."""

_MS_MAX = ((1 << 63) - 1) // 1000


def timestamps(times_ms: pa.Array) -> pa.Array:
    """Returns milliseconds as timestamps. Times beyond what these can hold (a producer may state
    any number) become the first or the last of them."""
    missing = times_ms.is_null().to_numpy(zero_copy_only=False) if times_ms.null_count else None
    present = times_ms if missing is None else times_ms.fill_null(0)
    clipped = np.clip(present.to_numpy(zero_copy_only=False), -_MS_MAX, _MS_MAX)
    return pa.array(clipped * 1000, mask=missing).view(TIMESTAMP)


def milliseconds_hint(kind: pa.DataType) -> str:
    """Returns what to do with a column of a type where a number of milliseconds is wanted."""
    steps = "to timestamp('ms', tz='UTC'), then to int64" if pa.types.is_temporal(kind) else "int64"
    return f"cast it before: {steps}"
