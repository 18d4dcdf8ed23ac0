"""PyArrow, imported at the first use of one of its names: a command that shows a few records as
they are needs none of its 40 MB.

Whoever imports `pa` from here must not use it while the module is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logdex.primitives.lazy_module import LazyModule

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    pa, pc = LazyModule("pyarrow"), LazyModule("pyarrow.compute")

__all__ = ["pa", "pc"]
