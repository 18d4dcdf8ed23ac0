"""Where compiled kernels are kept if the package lies in a zip archive.

Spark puts an archive that a job names with ``--py-files`` on the path of each executor. Numba's own
locator for archives ignores the folder that `compiled.py` chooses.
"""

from __future__ import annotations

import os
from typing import Any

from numba import config
from numba.core.caching import ZipCacheLocator


class ArchivedKernels(ZipCacheLocator):
    """Keeps the compiled code of functions from an archive in Numba's CACHE_DIR."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)
        self._cache_path = os.path.join(config.CACHE_DIR, self.get_suitable_cache_subpath(py_file))
