"""Packages that only some installations have, and how they are installed."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
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
        hint = to_install(_INSTALL.get(module, module))
        raise EnvironmentProblem(f"{_NAMES[module]} is not installed", hint=hint) from None


def to_install(package: str) -> str:
    """Returns the command that installs a package, which may be quoted for a shell, into this
    Python: by its pip, or by uv if it has none."""
    program = shutil.which("pip")
    if program is not None and os.path.dirname(program) == os.path.dirname(sys.executable):
        return f"pip install {package}"
    python = shlex.quote(sys.executable)
    if importlib.util.find_spec("pip") is None and shutil.which("uv") is not None:
        return f"uv pip install --python {python} {package}"
    return f"{python} -m pip install {package}"


class _NoPandas(MetaPathFinder):
    """Finds that pandas is not there."""

    @staticmethod
    def find_spec(name: str, *_rest: object) -> None:
        """Raises `ModuleNotFoundError` for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError("Logdex uses no pandas here", name=name)


def hide_pandas() -> None:
    """Makes this process behave as if pandas were not installed, until `show_pandas` is called.

    PyArrow imports pandas when its first array is made, which takes as long as a small command.
    """
    if _NoPandas not in sys.meta_path:
        sys.meta_path.insert(0, _NoPandas)


def show_pandas() -> None:
    """Ends what `hide_pandas` began."""
    if _NoPandas in sys.meta_path:
        sys.meta_path.remove(_NoPandas)
