"""A healthy store has no findings, whatever its history, and a rebuild gives what the broker has on its disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logdex.rocketmq.geometry.resolve import resolve_config
from tests.interop.rocketmq.scenarios import VERSIONS, require_same_again, write_scenario

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(600)]


@pytest.mark.parametrize("version", VERSIONS)
def test_custom_delay_levels(version: str, peers_dir: Path, tmp_path: Path) -> None:
    store = write_scenario(peers_dir, version, "delay", tmp_path / "store", "--delays", "2s_7s_11s")
    report = require_same_again(store, tmp_path)
    assert report.assumed == []
    shutil.move(store / "consumequeue", tmp_path / "queues")
    config = resolve_config(str(store), message_delay_level="2s 7s 11s", mapped_file_size_consume_queue=400)
    shutil.move(tmp_path / "queues", store / "consumequeue")
    assert require_same_again(store, tmp_path / "stated", config).assumed == []
