"""A stream beside a real engine that writes as fast as it can, started again for each batch: no
message is lost, and none comes twice."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.spark.sources.rocketmq.stream import StoreStream
from logdex.spark.sources.stream_table import Offsets, StreamProgress
from tests.interop.rocketmq.scenarios import MARKED_VERSIONS
from tests.interop.rocketmq.test_live import SIZES, config_when_there, live
from tests.unit.spark.sources.tables import rows_between

pytestmark = [pytest.mark.needs_java, pytest.mark.slow, pytest.mark.timeout(1200)]

GEOMETRY = {
    "mappedFileSizeCommitLog": str(SIZES["--commitlog"]),
    "mappedFileSizeConsumeQueue": str(20 * SIZES["--cq"]),
    "maxHashSlotNum": str(SIZES["--slots"]),
    "maxIndexNum": str(SIZES["--max-index"]),
}
RESTARTS = 10


def next_batch(source: StoreStream, start: Offsets, found: list[int]) -> Offsets:
    """Reads a batch as a query that was just started from its checkpoint."""
    source = pickle.loads(pickle.dumps(source))
    end: Offsets = json.loads(json.dumps(StreamProgress(source).advance(start, source.limits)))
    found += [row["physicalOffset"] for row in rows_between(source, start, end)]
    return end


@pytest.mark.parametrize("version", MARKED_VERSIONS[-1:])
@pytest.mark.parametrize("limit", ["2000", "1000000"])
def test_a_stream_beside_a_writing_engine(version: str, limit: str, peers_dir: Path, tmp_path: Path) -> None:
    store, batches, beside = tmp_path / "store", 0, 0
    found: list[int] = []
    with live(peers_dir, version, store) as process:
        config = config_when_there(store, process)
        options = {"path": str(store), "startingOffsets": "earliest", "columns": "physicalOffset", **GEOMETRY}
        source = StoreStream({**options, "maxOffsetsPerTrigger": limit})
        start = source.initial()
        while process.poll() is None:
            end = next_batch(source, start, found)
            beside += end != start
            start = end
    while (end := next_batch(source, start, found)) != start:
        start = end
        batches += 1
    assert beside >= 3
    assert beside + batches >= RESTARTS or limit != "2000"
    with StoreSnapshot(store, config=config) as snapshot:
        assert found == [offset for offset, _ in snapshot.scan().items()]
