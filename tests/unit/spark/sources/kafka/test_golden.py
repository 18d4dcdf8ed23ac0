"""Every golden directory of Kafka through `kafka_log`, without Spark: row for row and column for
column what the local reader gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.errors import CorruptError
from logdex.kafka.read.log_read import READ_COMMITTED, READ_UNCOMMITTED
from logdex.spark.sources.kafka.table import LogDirTable
from tests.examples import cases
from tests.golden import kafka as golden
from tests.unit.spark.sources.kafka.local_rows import local_rows, options_of
from tests.unit.spark.sources.tables import rows_of

LEVELS = (READ_UNCOMMITTED, READ_COMMITTED)


@pytest.mark.parametrize(("name", "isolation"), cases([(n, level) for n in golden.NAMES for level in LEVELS], 9))
def test_rows(name: str, isolation: str, golden_log: Callable[[str], Path]) -> None:
    path = golden_log(name)
    expected, topics, is_damaged = local_rows(path, isolation)
    assert expected
    options = options_of(path, isolation, topics, is_damaged=is_damaged)
    if is_damaged:
        with pytest.raises(CorruptError):
            rows_of(LogDirTable(options | {"mode": "FAILFAST"}))
    assert rows_of(LogDirTable(options)) == expected
    one_by_one = rows_of(LogDirTable(options | {"maxPartitionBytes": "4k"}))
    assert one_by_one == expected


def test_what_is_committed_is_less(golden_log: Callable[[str], Path]) -> None:
    """So that the two levels are not compared with themselves."""
    path = golden_log("tiny-broker")
    assert len(local_rows(path, READ_COMMITTED)[0]) < len(local_rows(path, READ_UNCOMMITTED)[0])
