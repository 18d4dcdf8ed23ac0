"""Every golden case of both formats on a remote file system: row for row as on the local disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.errors import CorruptError
from logdex.formats import detect, format_of
from logdex.io.env import Env
from tests import remote
from tests.conformance.rocketmq.test_store import VARIANTS, geometry_of
from tests.examples import cases
from tests.golden import kafka as golden_kafka


def check(root: Path, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    remote.small_parts(monkeypatch)
    with remote.in_memory(root) as url:
        with logdex.open(root, **settings) as here, logdex.open(url, env=Env(), **settings) as there:
            assert rows_of(there) == rows_of(here)
        remote.small_parts(monkeypatch, 1 << 20)  # verify reads all
        assert problems_of(url, settings) == problems_of(str(root), settings)


def rows_of(snapshot: Any) -> tuple[list[dict[str, Any]], str]:
    """The rows up to the first error, and the error without the path."""
    try:
        return snapshot.scan().arrow_reader().read_all().to_pylist(), ""
    except CorruptError as error:
        return [], error.description


def problems_of(path: str, settings: dict[str, Any]) -> list[str]:
    found = detect(path)
    report = format_of(found).verify(found, settings, max_findings=100, env=Env())
    return [str(each).replace(path, "PATH") for each in report.findings]


@pytest.mark.parametrize(("name", "recovered"), cases(VARIANTS, 12))
def test_stores(golden_store: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, name: str, recovered: bool) -> None:
    check(golden_store(name, recovered=recovered), geometry_of(name), monkeypatch)


@pytest.mark.parametrize("name", cases(golden_kafka.NAMES, 8))
def test_log_directories(golden_log: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    check(golden_log(name), {}, monkeypatch)
