"""What can be imported from `logdex.kafka`."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import logdex.kafka


@pytest.mark.parametrize("name", logdex.kafka.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(logdex.kafka, name).__name__ == name


def test_type_checkers_see_the_same_names() -> None:
    """Each with the module that it is loaded from."""
    tree = ast.parse(Path(inspect.getfile(logdex.kafka)).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        (alias.asname, f"{node.module}")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {(name, getattr(logdex.kafka, name).__module__) for name in logdex.kafka.__all__}


def test_dir_lists_what_is_exported() -> None:
    assert dir(logdex.kafka) == sorted(logdex.kafka.__all__)


def test_other_names_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="Broker"):
        _ = logdex.kafka.Broker  # type: ignore[attr-defined]
