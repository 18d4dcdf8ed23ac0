"""Whatever filter reaches a log's tables: the rows are those of the same filter after reading
everything."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from logdex.frames.dataset import LogDataset
from logdex.kafka.directory.recognise import require_kafka
from logdex.kafka.snapshot.log_dir_snapshot import open_kafka
from logdex.kafka.tables.log_tables import KafkaTables
from tests.examples import examples
from tests.property.filters import random_filter
from tests.property.kafka.test_read_plan import write_partitions

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestamp_ms", "key")


@settings(max_examples=examples(30))
@given(seed=st.integers(0, 1 << 32))
def test_filters_that_are_pushed_down(seed: int) -> None:
    chance = Random(seed)
    with TemporaryDirectory() as folder:
        write_partitions(Path(folder), chance)
        isolation = chance.choice((None, "read_uncommitted", "read_committed"))
        with open_kafka(folder) as snapshot:
            found = require_kafka(folder)
            tables = KafkaTables(found, snapshot, control=chance.random() < 0.5, isolation=isolation).tables
            for name, columns in {
                "records": COLUMNS,
                "index_entries": ("topic", "partition", "index", "offset"),
            }.items():
                dataset = LogDataset(tables[name])
                whole = dataset.to_table()
                assert dataset.count_rows() == len(whole)
                for _ in range(4):
                    expression, _ = random_filter(chance, whole, columns)
                    chosen = chance.sample(whole.schema.names, chance.randint(1, 4))
                    rows = dataset.to_table(columns=chosen, filter=expression)
                    assert rows.to_pylist() == whole.filter(expression).select(chosen).to_pylist(), expression
