"""A healthy store has no findings, whatever its history, and a rebuild gives what the broker has on its disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.rebuild import rebuild
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


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_that_was_deleted_and_created_again(version: str, peers_dir: Path, tmp_path: Path) -> None:
    store = write_scenario(peers_dir, version, "recreate", tmp_path / "store")
    report = require_same_again(store, tmp_path)
    assert (report.queue_entries, report.earlier_life_entries) == (300, 100)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_deleted_topic(version: str, peers_dir: Path, tmp_path: Path) -> None:
    store = write_scenario(peers_dir, version, "deleted", tmp_path / "store")
    (store / "config").mkdir()
    (store / "config" / "topics.json").write_text('{"topicConfigTable":{"Other":{"topicName":"Other"}}}')
    report = require_same_again(store, tmp_path)
    assert report.deleted_topics == {"T": 200}
    asked = rebuild(store, tmp_path / "asked", resolve_config(str(store)), deleted_topics=True, sync=False)
    assert (asked.queues, asked.queue_entries, asked.deleted_topics) == (3, 400, {})
