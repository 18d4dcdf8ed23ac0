"""PyArrow, imported at the first use of one of its names: a command that shows a few records as
they are needs none of its 40 MB.

Whoever imports `pa` from here must not use it while the module is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logdex.errors import UsageError
from logdex.primitives.lazy_module import LazyModule

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    pa, pc = LazyModule("pyarrow"), LazyModule("pyarrow.compute")

__all__ = ["pa", "pc", "require_table"]


def require_table(given: object, taker: str) -> None:
    """Raises `UsageError` for what is no Arrow table, which says how a frame becomes one. `taker`
    is the name of what takes it."""
    if isinstance(given, (pa.Table, pa.RecordBatch)):
        return
    hint = "pyarrow.table(...)"
    if hasattr(given, "iloc"):
        hint = "pyarrow.Table.from_pandas(frame, preserve_index=False)"
    elif hasattr(given, "to_arrow"):
        hint = "frame.to_arrow()"
    raise UsageError(f"{taker} takes an Arrow table, not {type(given).__name__}", hint=hint)
