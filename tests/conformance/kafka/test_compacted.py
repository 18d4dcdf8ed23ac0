"""What the real cleaner has left stays as it is when Logdex compacts it again, but for what has a
horizon."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.verify import verify
from tests.golden.kafka import NAMES, index_interval_bytes, manifest, partitions, unpack

COMPACTED = [name for name in NAMES if "compact" in name]


def broker_config(name: str) -> LogConfig:
    settings = manifest(name)["config"]["workload"]["topics"][0]["config"]
    return LogConfig(
        segment_bytes=int(settings["internal.segment.bytes"]),
        index_interval_bytes=index_interval_bytes(name),
        cleanup_policy=("compact",),
    )


@pytest.mark.parametrize("name", COMPACTED)
def test_the_real_cleaners_work_is_done(name: str, tmp_path: Path) -> None:
    config = broker_config(name)
    directory = unpack(name, tmp_path / name)
    tombstones = 0
    for partition in partitions(name):
        with Log.open(str(directory / partition), config) as log:
            rows = [(record.offset, record.key, record.value) for record in log.records(control=True)]
            newest = max(segment.largest_timestamp_ms for segment in log.segments)
            report = log.compact(newest)
            assert report.interrupted is None
            assert report.first_dirty_offset == report.end_offset  # the broker's checkpoint says that all is clean
            assert report.records_read == report.records_kept > 0
            assert [(record.offset, record.key, record.value) for record in log.records(control=True)] == rows

            # From the start, as if nothing were clean: the same.
            log._core.home.write_cleaner_point(0)
            again = log.compact(newest)
            assert (again.first_dirty_offset, again.end_offset) == (0, report.end_offset)
            assert again.records_read == again.records_kept
            assert [(record.offset, record.key, record.value) for record in log.records(control=True)] == rows

            # Past the horizon that the broker has set, its tombstones go and nothing else.
            data = [(record.offset, record.key, record.value) for record in log.records()]
            log.compact(newest + 3 * config.delete_retention_ms)
            left = [(record.offset, record.key, record.value) for record in log.records()]
            assert left == [row for row in data if row[2] is not None or row[0] >= report.end_offset]
            tombstones += len(data) - len(left)
        assert verify(str(directory / partition), config).findings == []
    assert tombstones > 0 or name.startswith("tiny")
