"""Indexes rebuilt without a word on `index.interval.bytes` are those of the real recovery wherever
indexes tell it.

They tell nothing where there are no entries; and where a broker wrote its internal topics under its
default, and the case's recovery ran under another interval, they tell the broker's.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.io.env import Env
from logdex.kafka.internal_topics.batch_reading import segment_paths
from logdex.kafka.rebuild import rebuild
from logdex.kafka.recover import recover
from logdex.kafka.segment.index_interval import IndexInterval, index_intervals
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.verify import verify
from tests.conformance.kafka.test_rebuild import expected_files
from tests.directories import digests
from tests.examples import cases
from tests.golden import kafka as golden_kafka

GoldenLog = Callable[[str], Path]


def told(name: str, store: Path) -> dict[str, IndexInterval]:
    logs = {partition: segment_paths(str(store / partition)) for partition in golden_kafka.partitions(name)}
    return {partition: found for partition, found in index_intervals(logs, Env()).items() if found.is_inferred}


def expected_indexes(name: str) -> dict[str, str]:
    return {path: digest for path, digest in expected_files(name).items() if path.endswith((".index", ".timeindex"))}


@pytest.mark.parametrize("name", golden_kafka.NAMES)
def test_what_is_inferred_gives_the_indexes_of_the_real_recovery(
    name: str, golden_log: GoldenLog, tmp_path: Path
) -> None:
    store = golden_log(name)
    report = rebuild(str(store), str(tmp_path / "out"), sync=False)
    assert report.inferred
    found, inferred = digests(tmp_path / "out"), told(name, store)
    differ = {path.split("/")[0] for path, digest in expected_indexes(name).items() if found[path] != digest}
    differ &= inferred.keys()
    given = golden_kafka.index_interval_bytes(name)
    assert all(inferred[partition].size_bytes != given for partition in differ), differ
    of_case = [interval for partition, interval in inferred.items() if not partition.startswith("__")]
    assert of_case
    assert all(interval.low <= given < interval.high for interval in of_case)
    if given <= 4096 and given & (given - 1) == 0:  # then nothing that is as round fits where twice as much does not
        assert {interval.size_bytes for interval in of_case if interval.high <= 2 * given} <= {given}


def noted_partitions(root: Path, config: LogConfig | None) -> list[str]:
    """Where `verify` says that indexes differ from those of a recovery."""
    paths = [Path(info.path) for info in verify(str(root), config).infos if info.kind == "index-differs"]
    return [path.name if path.is_dir() else path.parent.name for path in paths]


@pytest.mark.parametrize("name", cases(golden_kafka.NAMES, 3))
def test_verify_notes_no_more_than_with_the_interval_given(name: str, golden_log: GoldenLog) -> None:
    store, interval = golden_log(name), golden_kafka.index_interval_bytes(name)
    given = noted_partitions(store, LogConfig(index_interval_bytes=interval))
    inferred = noted_partitions(store, None)
    assert len(inferred) == len(set(inferred))
    others = {partition for partition, found in told(name, store).items() if found.size_bytes != interval}
    inferred = [each for each in inferred if each.startswith("__") or each not in others]
    assert len(inferred) <= len(given)
    assert {each for each in inferred if not each.startswith("__")} <= set(given)


@pytest.mark.parametrize("name", ["tiny-compacted", "tiny-crash"])
def test_recover_writes_indexes_with_the_interval_inferred(name: str, golden_log: GoldenLog, tmp_path: Path) -> None:
    store = golden_log(name)
    report = recover(str(store), str(tmp_path / "inferred"), sync=False)
    recover(str(store), str(tmp_path / "default"), infer_interval=False, sync=False)
    assert any(text.startswith("index.interval.bytes 256") for text in report.inferred)
    rebuild(str(tmp_path / "inferred"), str(tmp_path / "again"), index_interval_bytes=256, sync=False)
    inferred, default = digests(tmp_path / "inferred"), digests(tmp_path / "default")
    again = digests(tmp_path / "again")
    mine = [path for path in again if path.endswith("index") and path.split("/")[0] in told(name, store)]
    assert mine
    assert all(inferred[path] == again[path] for path in mine)
    assert any(inferred[path] != default[path] for path in mine)
