"""A module that is imported when it is first used, because importing it takes long."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """A module that is imported at the first use of one of its names.

    It keeps the names that were used, because kernels' callers look them up per window.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._name), name)
        setattr(self, name, value)
        return value
