"""A key with 3,000,000 entries: pages cost what they return, wherever they begin, and memory is
bounded."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest

from logdex.io.env import Env
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.cli.harm import peak_bytes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
MESSAGES, AT_ONCE, PAGE = 3_000_000, 100_000, 10
PAGE_SECONDS = 0.05
PROBING_BYTES = 100_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hot") / "store"
    columns = {"topic": ["T"] * AT_ONCE, "keys": ["hot"] * AT_ONCE}
    with MessageStore.open(root, max_hash_slot_num=1_000_000, max_index_num=4_000_000) as writing:
        for first in range(0, MESSAGES, AT_ONCE):
            bodies = [b"%d" % number for number in range(first, first + AT_ONCE)]
            assert writing.put_columns(pa.table({**columns, "body": bodies})).is_stored
        assert writing.wait_dispatched(60)
    return root


def test_pages(store: Path) -> None:
    env = Env()
    with StoreSnapshot(str(store), env=env) as snapshot:
        assert snapshot.valid_end_offset
        cursor = None
        for page in range(20):
            before = env.counters.read_bytes
            found = snapshot.query_message("T", "hot", max=PAGE, cursor=cursor)
            newest = MESSAGES - 1 - page * PAGE
            assert [int(each.body) for each in found.messages] == [*range(newest, newest - PAGE, -1)]
            assert found.complete
            probing = 0 if page else PROBING_BYTES  # the first page holds the IndexFile against the log
            assert env.counters.read_bytes - before < 50_000 + probing
            cursor = found.next_cursor
        half = snapshot.get_message("T", 0, MESSAGES // 8, 1).messages[0].physical_offset
        before = env.counters.read_bytes
        found = snapshot.query_message("T", "hot", max=PAGE, cursor=half)
        assert len(found.messages) == PAGE
        assert all(each.physical_offset < half for each in found.messages)
        assert env.counters.read_bytes - before < 500_000


def test_a_page_takes_little_time(store: Path) -> None:
    with StoreSnapshot(str(store)) as snapshot:
        cursor = snapshot.query_message("T", "hot", max=PAGE).next_cursor
        seconds = []
        for _ in range(3):
            before = time.process_time()
            found = snapshot.query_message("T", "hot", max=PAGE, cursor=cursor)
            seconds.append(time.process_time() - before)
            assert len(found.messages) == PAGE
            cursor = found.next_cursor
    assert min(seconds) < PAGE_SECONDS


def test_memory_while_walking(store: Path) -> None:
    with StoreSnapshot(str(store)) as snapshot:
        found = iter(snapshot.search_messages("T", "hot"))
        next(found)
        before = peak_bytes()
        assert sum(1 for _ in islice(found, 300_000)) == 300_000
        assert peak_bytes() - before < 64 << 20
