"""`kernel` and `intrinsic`: functions that Numba compiles when one of them is first called.

Importing Numba takes as long as all else that a small command does, and 80 MB. So importing the
kernels' modules does not import it, and a process that calls no kernel never does. The first call
hands all functions that are defined by then to Numba. They call one another by their names, so the
names in their modules then stand for what Numba made of them, at no cost per call.

Compiled code is kept in a directory named by a digest of all kernels, the layouts and the limits.
Numba itself checks only the file of a kernel, and would run stale code after a change in a function
that the kernel calls.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import logdex.limits
from logdex.primitives import kept_files
from logdex.primitives.lazy_module import LazyModule

_R = TypeVar("_R")
_LOCK = threading.RLock()
_waiting: list[_Waiting[Any]] = []
_is_numba_there = False
PLAIN_WORK_US_MAX = 50_000
_plain_work_us = 0


def kernel(function: Callable[..., _R]) -> Callable[..., _R]:
    """Compiles a function without Python objects: it releases the GIL, divides as NumPy does, and
    its code is kept on disk."""
    return _waiting_for(function, _as_kernel)


def inner_kernel(function: Callable[..., _R]) -> Callable[..., _R]:
    """As `kernel`, for a function that only kernels call: it compiles in less time, because Python
    cannot call it."""
    return _waiting_for(function, _Inner)


def inlined_kernel(function: Callable[..., _R]) -> Callable[..., _R]:
    """As `kernel`, for a function whose body replaces each call of it."""
    return _waiting_for(function, _as_inlined_kernel)


def intrinsic(function: Callable[..., Any]) -> Any:
    """Makes an intrinsic of a function, which returns a signature and the code of a call."""
    return _waiting_for(function, _as_intrinsic)


def is_plain_quicker() -> bool:
    """Whether a plain twin should do a little work in place of a kernel: Numba is not there yet,
    and all plain work of this process so far took less time than loading it would have taken."""
    return not _is_numba_there and _plain_work_us < PLAIN_WORK_US_MAX


def add_plain_work(duration_us: int) -> None:
    """Notes about how long plain work took."""
    global _plain_work_us
    _plain_work_us += duration_us


class Compiling:
    """What this process has compiled so far: `kernels` is how many, and `seconds` is how long it
    took. `show` is called with the name of a kernel when one is being compiled, and with None
    behind it."""

    def __init__(self) -> None:
        self.kernels = 0
        self.seconds = 0.0
        self.show: Callable[[str | None], None] = lambda _: None
        self._depth = 0
        self._began = 0.0

    def begin(self, name: str) -> None:
        """A kernel is being compiled, perhaps because another one calls it."""
        self._depth += 1
        if self._depth == 1:
            self._began = time.perf_counter()
            self.show(name)

    def end(self) -> None:
        """The kernel has been compiled."""
        self._depth -= 1
        self.kernels += 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._began
            self.show(None)


compiling = Compiling()


def load() -> None:
    """Loads Numba, and gives it all functions; their names in the kernels' modules then stand for
    what it made of them."""
    global _is_numba_there
    with _LOCK:
        if _is_numba_there:
            return
        _keep_compiled_code()
        _listen()
        for each in _waiting:
            each.make()
        for name, module in list(sys.modules.items()):
            if name.startswith(f"{__package__}."):
                names = vars(module)
                names |= {key: value.made for key, value in list(names.items()) if isinstance(value, _Waiting)}
        _waiting.clear()
        _is_numba_there = True


ir, types, cgutils = map(LazyModule, ("llvmlite.ir", "numba.types", "numba.core.cgutils"))
"""For the code of intrinsics."""


class _Waiting(Generic[_R]):
    """A function that Numba does not have yet."""

    def __init__(self, function: Callable[..., _R], make: Callable[[Any], Any]) -> None:
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self.__wrapped__ = function
        self._make = make
        self.made: Callable[..., _R] | None = None

    def make(self) -> None:
        self.made = self._make(self.__wrapped__)

    def __call__(self, *args: Any, **kwargs: Any) -> _R:
        if self.made is None:
            load()
        assert self.made is not None
        return self.made(*args, **kwargs)


def _waiting_for(function: Callable[..., _R], make: Callable[[Any], Any]) -> Any:
    with _LOCK:
        if _is_numba_there:
            return make(function)
        _waiting.append(_Waiting(function, make))
        return _waiting[-1]


def _as_kernel(function: Any, **options: Any) -> Any:
    from numba import njit

    made = njit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)(function)
    template = made.get_call_template
    made.get_call_template = lambda args, kws: template(*_without_literals(args, kws))
    return made


class _Inner:
    """Stands for a kernel that only kernels call. Numba finds the kernel by `_numba_type_`."""

    def __init__(self, function: Any) -> None:
        self.__name__ = function.__name__
        self._kernel = _as_kernel(function, no_cpython_wrapper=True)
        self._numba_type_ = types.Dispatcher(self._kernel)  # this refers to it weakly

    def __call__(self, *_: object) -> Any:
        raise TypeError(f"only kernels call {self.__name__}")


def _without_literals(args: Any, kws: Any) -> Any:
    """Returns types for which one compilation serves all calls: else Numba compiles a kernel once
    more for each constant that another kernel calls it with."""
    return tuple(map(types.unliteral, args)), {name: types.unliteral(each) for name, each in kws.items()}


def _as_inlined_kernel(function: Any) -> Any:
    return _as_kernel(function, inline="always")


def _as_intrinsic(function: Any) -> Any:
    from numba.extending import intrinsic as numba_intrinsic

    return numba_intrinsic(function)


def _listen() -> None:
    """Has Numba tell `compiling` what it compiles, and does not find among what it kept."""
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            compiling.begin(event.data["dispatcher"].py_func.__name__)

        def on_end(self, event: Any) -> None:
            compiling.end()

    event.register("numba:compile", Listener())


def _keep_compiled_code() -> None:
    """Points Numba at ``~/.cache/logdex`` (or XDG_CACHE_HOME's), unless NUMBA_CACHE_DIR is set."""
    import atexit
    import hashlib
    import shutil
    import tempfile

    from numba import config
    from numba.core.caching import CacheImpl

    if config.CACHE_DIR:
        return
    digest = hashlib.sha256()
    for source in _sources():
        digest.update(source.read_bytes())
    folder = os.path.join(kept_files.folder(), f"kernels-{digest.hexdigest()[:16]}")
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
    if _archive() and not config.CACHE_LOCATOR_CLASSES:
        ours = f"{__package__}.archived.ArchivedKernels"
        config.CACHE_LOCATOR_CLASSES = ",".join([ours, *(each.__name__ for each in CacheImpl._locator_classes)])


def _sources() -> list[Path]:
    """What compiled code depends on: the files of the kernels, the layouts and the limits."""
    if archive := _archive():
        return [archive]
    package = Path(__file__).parent
    files = *package.rglob("*.py"), *(package.parent / "layout").glob("*.py"), Path(str(logdex.limits.__file__))
    return sorted(files)


def _archive() -> Path | None:
    """The zip archive that the package lies in, as with Spark's ``--py-files``."""
    return next((parent for parent in Path(__file__).parents if parent.is_file()), None)
