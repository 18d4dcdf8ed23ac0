"""What can be imported from `logdex.rocketmq`."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import logdex.rocketmq


@pytest.mark.parametrize("name", logdex.rocketmq.__all__)
def test_the_fields_terms_can_be_imported(name: str) -> None:
    assert getattr(logdex.rocketmq, name).__name__ == name


def test_type_checkers_see_the_same_names() -> None:
    """Each with the module that it is loaded from."""
    tree = ast.parse(Path(inspect.getfile(logdex.rocketmq)).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        (alias.asname, f"{node.module}")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {(name, getattr(logdex.rocketmq, name).__module__) for name in logdex.rocketmq.__all__}


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="Broker"):
        _ = logdex.rocketmq.Broker  # type: ignore[attr-defined]


def test_the_import_loads_none_of_them() -> None:
    script = (
        "import sys, logdex.rocketmq, logdex.kafka\n"
        "print(*[name for name in sys.modules if name.startswith('logdex.') or name in ('numpy', 'pyarrow')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["logdex.rocketmq", "logdex.kafka"]


def test_no_import_loads_numba() -> None:
    script = "import sys, logdex.rocketmq as r; [getattr(r, name) for name in r.__all__]; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False"]
