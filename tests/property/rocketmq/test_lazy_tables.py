"""Whatever filter reaches a store's tables: the rows are those of the same filter after reading
everything."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import example, given, settings
from hypothesis import strategies as st

from logdex.frames.dataset import LogDataset
from logdex.layout.rocketmq import SYS_FLAG_ROLLBACK
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.tables.store_tables import StoreTables
from tests.examples import examples
from tests.property.filters import random_filter
from tests.property.rocketmq.test_read_plan import random_messages, time_slack_ms
from tests.unit.rocketmq.small_stores import CONFIG, build

COLUMNS = ("topic", "queue_id", "queue_offset", "physical_offset", "store_timestamp", "store_timestamp_ms", "tags")
KEYS = ("unique_key", "key")


@settings(max_examples=examples(40))
@example(seed=36)
@given(seed=st.integers(0, 1 << 32))
def test_filters_that_are_pushed_down(seed: int) -> None:
    chance = Random(seed)
    with TemporaryDirectory() as folder:
        messages = random_messages(chance, chance.randint(5, 60), same_size=False)
        root = build(Path(folder) / "store", messages)
        with StoreSnapshot(str(root), config=CONFIG) as snapshot:
            slack = chance.choice((None, time_slack_ms(messages)))
            tables = StoreTables(snapshot, time_slack_ms=slack).tables
            name = chance.choice(("messages", "message_keys"))
            whole = LogDataset(tables[name]).to_table()
            for _ in range(5):
                expression, used = random_filter(
                    chance, whole, (*COLUMNS, *(n for n in KEYS if n in whole.schema.names))
                )
                columns = [n for n in chance.sample(whole.schema.names, 4) if n != "sys_flag"]
                rows = LogDataset(tables[name]).to_table(columns=[*columns, "sys_flag"], filter=expression)
                expected = whole.filter(expression).select([*columns, "sys_flag"])
                if used & {*KEYS}:  # the index has no entries for messages that were rolled back
                    rows, expected = (each.filter(is_committed(each)) for each in (rows, expected))
                assert rows.to_pylist() == expected.to_pylist(), expression
            assert LogDataset(tables[name]).count_rows() == len(whole)


def is_committed(rows: pa.Table) -> pa.ChunkedArray:
    return pc.not_equal(pc.bit_wise_and(rows.column("sys_flag"), SYS_FLAG_ROLLBACK), SYS_FLAG_ROLLBACK)
