"""A whole log directory: its partitions and who has committed what, against what the real broker's
clients saw."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.kafka.directory.log_dir import KafkaLogDir
from tests.golden import kafka as golden_kafka

Tree = dict[str, tuple[int, int]]


def _tree(root: Path) -> Tree:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in [root, *root.rglob("*")]}


@pytest.mark.parametrize("name", golden_kafka.NAMES)
def test_a_log_directory_is_read_and_left_as_it_is(name: str, golden_log: Callable[[str], Path]) -> None:
    root = golden_log(name)
    before = _tree(root)
    found = KafkaLogDir(str(root))
    assert sorted(each.name for each in found.partition_dirs(marked=True)) == golden_kafka.partitions(name)
    for each in found.partition_dirs():
        found.topic_id(each)
    files = golden_kafka.manifest(name)["files"]
    assert (found.clean_shutdown() is not None) == (".kafka_cleanshutdown" in files)
    assert (found.meta_properties() is not None) == ("meta.properties" in files)
    known = {each.topic_partition for each in found.partition_dirs()}
    if found.clean_shutdown() is not None:  # then everything is flushed, and said to be
        assert known <= set(found.recovery_points())
        assert known <= set(found.high_watermarks())
    assert all(offset >= 0 for offset in (found.log_start_offsets() | found.cleaner_offsets()).values())
    assert (found.other_names(), found.is_locked()) == ([], False)
    assert _tree(root) == before


@pytest.mark.parametrize("name", golden_kafka.NAMES)
def test_groups_have_committed_what_the_broker_says(name: str, golden_log: Callable[[str], Path]) -> None:
    found = KafkaLogDir(str(golden_log(name))).consumer_offsets()
    assert found.problems == []
    for line in golden_kafka.lines(name, "broker", "group"):
        mine = {str(partition): commit.offset for partition, commit in found.of_group(line["group"]).items()}
        assert mine == line["offsets"]
        assert line["group"] in found.group_names()
