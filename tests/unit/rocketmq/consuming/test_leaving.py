"""How a `Consumer` leaves its group without a call of its `close`."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from logdex.errors import LogClosedError
from tests.unit.rocketmq.consuming.stores import consumer, read_all, store_with
from tests.unit.rocketmq.message_store.open_stores import open_store


def test_a_member_that_nobody_refers_to_leaves_the_group(tmp_path: Path) -> None:
    with store_with(tmp_path, 8) as store:
        member = consumer(store)
        assert len(member.poll(3)) == 3
        del member
        gc.collect()
        with consumer(store) as member:
            assert sorted(read_all(member)) == list(range(8))
            assert len(os.listdir(tmp_path / ".logdex-consumers" / "G")) == 2  # the lock and the queues of one


def test_a_store_that_is_closed_closes_its_consumers(tmp_path: Path) -> None:
    store = store_with(tmp_path, 8)
    member = consumer(store)
    elsewhere = consumer(tmp_path, "H")
    assert len(member.poll(8)) == 8
    store.close()
    assert repr(member).endswith(", closed)")
    for use in (member.poll, member.commit, lambda: member.seek(0, 0)):
        with pytest.raises(LogClosedError, match="a MessageStore that is closed closes its consumers"):
            use()
    with pytest.raises(LogClosedError, match="the store was closed"):
        consumer(store)
    assert os.listdir(tmp_path / ".logdex-consumers" / "G") == []
    with elsewhere, open_store(tmp_path) as store, consumer(store) as member:
        assert sorted(read_all(member)) == sorted(read_all(elsewhere)) == list(range(8))
        member.close()
