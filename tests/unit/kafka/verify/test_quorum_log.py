"""The quorum's own log, which a broker that shuts down leaves as it is, untrimmed and without a
last time entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.files.metadata_files import CleanShutdown, MetaProperties
from logdex.kafka.log.log import Log
from logdex.kafka.verify import verify


@pytest.mark.parametrize(("topic", "found"), [("__cluster_metadata", []), ("events", ["time-index-end"])])
def test_its_time_index_need_not_be_finished(topic: str, found: list[str], tmp_path: Path) -> None:
    MetaProperties(1, "VqFrmJ_RQmqWTgxnz2vYOQ", 1, "RvsNJOzdTx2Ib4WpMjcLuA").write(str(tmp_path / "meta.properties"))
    CleanShutdown().write(str(tmp_path / ".kafka_cleanshutdown"))
    partition = tmp_path / f"{topic}-0"
    with Log.open(str(partition)) as log:
        log.append([Record(b"k", b"v", 1_700_000_000_000)])
    (partition / f"{0:020d}.timeindex").write_bytes(bytes(1200))
    for path in (tmp_path, partition):
        assert [finding.check for finding in verify(str(path)).findings] == found
