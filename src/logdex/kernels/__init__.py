"""Numba kernels: flat loops over arrays and addresses. Each has a plain twin, and a test compares
the two.

Compiled kernels are cached in a directory named by a digest of all kernels, the layouts and the
limits. Numba itself checks only the file of a kernel, and would run stale code after a change in a
function that the kernel calls.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from numba import config

import logdex.limits


def _keep_compiled_code() -> None:
    """Points Numba at ``~/.cache/logdex`` (or XDG_CACHE_HOME's), unless NUMBA_CACHE_DIR is set."""
    if config.CACHE_DIR:
        return
    digest = hashlib.sha256()
    package = Path(__file__).parent
    sources = *package.rglob("*.py"), *(package.parent / "layout").glob("*.py"), Path(str(logdex.limits.__file__))
    for source in sorted(sources):
        digest.update(source.read_bytes())
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(base, "logdex", f"kernels-{digest.hexdigest()[:16]}")
    try:
        os.makedirs(folder, exist_ok=True)
        usable = os.access(folder, os.W_OK)
    except OSError:
        usable = False
    # Without a writable home the kernels are compiled in each process, because others could plant
    # code in a shared directory.
    if not usable:
        folder = tempfile.mkdtemp(prefix="logdex-kernels-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    config.CACHE_DIR = folder


_keep_compiled_code()
