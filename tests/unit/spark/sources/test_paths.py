"""The paths of a DataFrame: one, a list, a JSON list, a pattern."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logdex.errors import UsageError
from logdex.spark.sources.options import Options
from logdex.spark.sources.paths import find_paths
from tests import remote


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
        ({"paths": '[{"a": 1}]'}, "JSON list"),
    ],
)
def test_wrong_paths(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        found(**given)


def test_paths_with_a_scheme(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"1")
    with remote.in_memory(tmp_path, "backup") as url:
        assert found(path=f"{url}/a/") == [f"{url}/a"]
        assert found(path=f"{url}/*") == [f"{url}/a", f"{url}/b"]
        assert found(path=f"{url}/a,{url}/b") == [f"{url}/a", f"{url}/b"]


def test_storage_options() -> None:
    given = {"storage.endpoint_url": "http://[::1]:1", "storage.anon": "true", "storage.client_kwargs": '{"a": 1}'}
    options = Options("some_log", given, ("path",))
    assert options.storage() == {"endpoint_url": "http://[::1]:1", "anon": True, "client_kwargs": {"a": 1}}
    with pytest.raises(UsageError, match="no JSON"):
        Options("some_log", {"storage.client_kwargs": "{a}"}, ("path",)).storage()
