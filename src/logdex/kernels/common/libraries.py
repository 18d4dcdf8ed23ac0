"""Finds native functions of installed packages, for kernels that call them by their addresses."""

from __future__ import annotations

import ctypes
import importlib.util
from typing import Any

from logdex.kernels.compiled import ir


def shared_library(module: str) -> ctypes.CDLL | None:
    """The shared library of an extension module, or None. The module need not be importable."""
    try:
        found = importlib.util.find_spec(module)
        return ctypes.CDLL(found.origin) if found is not None and found.origin else None
    except (ImportError, OSError, ValueError):
        return None


def address_of(function: Any) -> int:
    """The address of a library's function."""
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def call_at(builder: Any, address: Any, result: Any, arguments: list[Any]) -> Any:
    """Calls the C function at an int64 address, inside an intrinsic.

    It returns `result`, and its parameters have the arguments' types.
    """
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(builder.inttoptr(address, kind.as_pointer()), arguments)
