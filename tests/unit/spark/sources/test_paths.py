"""The paths of a DataFrame: one, a list, a JSON list, a pattern."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logdex.errors import UsageError
from logdex.spark.sources.options import Options
from logdex.spark.sources.paths import find_paths


def found(**given: str) -> list[str]:
    return find_paths(Options("some_log", given, ("path", "paths")))


def test_lists(tmp_path: Path) -> None:
    for name in ("a", "b", "c,d", ".hidden"):
        (tmp_path / name).mkdir()
    a, b, c = (str(tmp_path / name) for name in ("a", "b", "c,d"))
    assert found(path=a + "/") == [a]
    assert found(path=f"file://{a}") == found(path=f"file:{a}") == [a]
    assert found(path=f"{a}, {b}") == [a, b]
    assert found(paths=json.dumps([a, b, a])) == [a, b]
    assert found(path=c) == [c], "what exists under the whole text is that path"
    assert found(path=f"{tmp_path}/*") == [a, b, c]
    assert found(path=f"{tmp_path}/[ab]") == [a, b]
    assert found(path=f"{tmp_path}/none") == [f"{tmp_path}/none"], "opening it raises the error"


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert found(path="store") == [str(tmp_path / "store")]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "needs a path"),
        ({"path": " "}, "needs a path"),
        ({"path": "/nowhere/*/store"}, "nothing matches"),
        ({"path": "s3://bucket/store"}, "s3: is not supported"),
        ({"paths": '[{"a": 1}]'}, "JSON list"),
    ],
)
def test_wrong_paths(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        found(**given)
