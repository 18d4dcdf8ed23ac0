"""A log directory that all tests of `kafka_log` read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.spark.sources.kafka.small_logs import write


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("kafka") / "logs"
    for name, count in (("orders-0", 20), ("orders-1", 10), ("events-0", 5), ("__consumer_offsets-0", 0)):
        write(root, name, count, segment_bytes=400)
    return root
