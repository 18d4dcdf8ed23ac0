"""A healthy store has no findings, whatever its history, and a rebuild gives what the broker has on
its disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logdex.errors import UnsupportedLayoutError
from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.rebuild import rebuild, rebuild_on
from logdex.rocketmq.verify import verify
from tests.directories import contents
from tests.interop.rocketmq.scenarios import MARKED_VERSIONS, queue_files, require_same_again, write_scenario
from tests.unit.rocketmq.rebuild.test_job import Serial

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(600), pytest.mark.slow]


@pytest.mark.parametrize("version", MARKED_VERSIONS)
def test_custom_delay_levels(version: str, peers_dir: Path, tmp_path: Path) -> None:
    store = write_scenario(peers_dir, version, "delay", tmp_path / "store", "--delays", "2s_7s_11s")
    report = require_same_again(store, tmp_path)
    assert report.assumed == []
    shutil.move(store / "consumequeue", tmp_path / "queues")
    config = resolve_config(str(store), message_delay_level="2s 7s 11s", mapped_file_size_consume_queue=400)
    shutil.move(tmp_path / "queues", store / "consumequeue")
    assert require_same_again(store, tmp_path / "stated", config).assumed == []


@pytest.mark.parametrize("version", MARKED_VERSIONS)
def test_a_topic_that_was_deleted_and_created_again(version: str, peers_dir: Path, tmp_path: Path) -> None:
    store = write_scenario(peers_dir, version, "recreate", tmp_path / "store")
    report = require_same_again(store, tmp_path)
    assert (report.queue_entries, report.earlier_life_entries) == (300, 100)


@pytest.mark.parametrize("version", MARKED_VERSIONS)
def test_a_deleted_topic(version: str, peers_dir: Path, tmp_path: Path) -> None:
    store = write_scenario(peers_dir, version, "deleted", tmp_path / "store")
    (store / "config").mkdir()
    (store / "config" / "topics.json").write_text('{"topicConfigTable":{"Other":{"topicName":"Other"}}}')
    report = require_same_again(store, tmp_path)
    assert report.deleted_topics == {"T": 200}
    asked = rebuild(store, tmp_path / "asked", resolve_config(str(store)), deleted_topics=True, sync=False)
    assert (asked.queues, asked.queue_entries, asked.deleted_topics) == (3, 400, {})


@pytest.mark.parametrize("version", MARKED_VERSIONS)
def test_light_queues(version: str, peers_dir: Path, tmp_path: Path) -> None:
    store = write_scenario(peers_dir, version, "lmq", tmp_path / "store")
    report = require_same_again(store, tmp_path)
    assert (report.queues, report.queue_entries) == (5, 350)
    before = contents(store)
    rebuild(store, store, resolve_config(str(store)), in_place=True, sync=False)
    assert queue_files(store) == {name: data for name, data in before.items() if name.startswith("consumequeue/")}


@pytest.mark.parametrize("version", MARKED_VERSIONS)
def test_a_consume_queue_ext_is_refused_by_name(version: str, peers_dir: Path, tmp_path: Path) -> None:
    store = write_scenario(peers_dir, version, "ext", tmp_path / "store")
    before, config = contents(store), resolve_config(str(store))
    assert [str(finding) for finding in verify(store, config).findings] == []
    for in_place, output in ((False, tmp_path / "out"), (True, store)):
        with pytest.raises(UnsupportedLayoutError, match="ConsumeQueueExt"):
            rebuild(store, output, config, in_place=in_place, sync=False)
        with pytest.raises(UnsupportedLayoutError, match="ConsumeQueueExt"):
            rebuild_on(Serial(), store, output, config, in_place=in_place, sync=False)
    assert contents(store) == before
    shutil.copytree(store / "commitlog", tmp_path / "bare" / "commitlog")
    assert rebuild(tmp_path / "bare", tmp_path / "out", config, sync=False).queue_entries == 200
