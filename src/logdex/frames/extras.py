"""Packages that only some installations have."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from logdex.errors import EnvironmentProblem

_NAMES = {"duckdb": "DuckDB", "pandas": "pandas", "polars": "Polars"}
_INSTALL = {"duckdb": "'logdex[sql]'"}


def require(module: str) -> Any:
    """Returns a module. Raises `EnvironmentProblem`, which states how to install it, if it is not
    there."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        hint = f"pip install {_INSTALL.get(module, module)}"
        raise EnvironmentProblem(f"{_NAMES[module]} is not installed", hint=hint) from None
