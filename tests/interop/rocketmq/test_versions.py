"""Stores that two versions of the engine wrote, or an engine without an index: verify finds
nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.verify import verify
from tests.interop.rocketmq.scenarios import MARKED_VERSIONS, write_scenario

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(600), pytest.mark.slow]


def test_an_engine_that_was_upgraded(peers_dir: Path, tmp_path: Path) -> None:
    store = write_scenario(peers_dir, "4.9.7", "plain", tmp_path / "store")
    write_scenario(peers_dir, "5.5.0", "plain", store, "--clock-start", "1700001000000")
    for stated in (None, "4.9.7", "5.5.0"):
        report = verify(store, resolve_config(str(store), rocketmq_version=stated))
        assert [str(finding) for finding in report.findings] == []
        assert report.messages == 400


@pytest.mark.parametrize("version", MARKED_VERSIONS)
def test_an_engine_without_an_index(version: str, peers_dir: Path, tmp_path: Path) -> None:
    store = write_scenario(peers_dir, version, "noindex", tmp_path / "store")
    report = verify(store, resolve_config(str(store)))
    assert [str(finding) for finding in report.findings] == []


@pytest.mark.parametrize("version", MARKED_VERSIONS)
def test_an_index_that_was_switched_off_for_a_while(version: str, peers_dir: Path, tmp_path: Path) -> None:
    store = write_scenario(peers_dir, version, "plain", tmp_path / "store")
    for number, what in enumerate(("noindex", "plain", "noindex"), 1):
        write_scenario(peers_dir, version, what, store, "--clock-start", str(1_700_000_000_123 + 10**9 * number))
        report = verify(store, resolve_config(str(store)))
        assert [str(finding) for finding in report.findings] == []
