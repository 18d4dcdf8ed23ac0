"""Stores of real brokers, read through plans: the rows of a full scan, and of the log nothing but
what is wanted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.layout.rocketmq import SYS_FLAG_ROLLBACK
from logdex.rocketmq.read.message_scan import LogScan
from logdex.rocketmq.read.parts import queue_guide
from logdex.rocketmq.read.parts.part_reader import PartReader
from logdex.rocketmq.read.read_filter import ReadFilter
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.conformance.rocketmq.test_store import VARIANTS, open_case


def offsets_of(store: StoreSnapshot, wanted: ReadFilter) -> list[int]:
    plan = store.plan_read(wanted, columns=["physical_offset"])
    batches = [batch for split in plan.splits for batch in split.to_batches()]
    return [offset for batch in batches for offset in batch["physical_offset"].to_pylist()]


@pytest.mark.parametrize("queues_max", [2, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "recovered"), VARIANTS)
def test_every_queue_tag_and_key_of_a_plan_is_that_of_a_scan(
    golden_store: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, name: str, recovered: bool, queues_max: int
) -> None:
    monkeypatch.setattr(queue_guide, "is_worth_it", lambda guide, begin: True)
    scanned_bytes = 0
    scan_part = PartReader._scan

    def counted(self, file, begin, end, *, by_blocks=False):  # type: ignore[no-untyped-def]
        nonlocal scanned_bytes
        met = yield from scan_part(self, file, begin, end, by_blocks=by_blocks)
        scanned_bytes += self.stopped_at - begin
        return met

    with open_case(golden_store(name, recovered=recovered), name) as store:
        everything = list(store.scan().items())
        queues = sorted({(message.topic, message.queue_id) for _, message in everything})
        monkeypatch.setattr(PartReader, "_scan", counted)
        for topic, queue_id in queues[:queues_max]:
            of_queue = [item for item in everything if (item[1].topic, item[1].queue_id) == (topic, queue_id)]
            scan = LogScan(store.plan_source(ReadFilter()), ReadFilter(topic=topic, queue_ids=frozenset([queue_id])))
            assert list(scan.items()) == of_queue
            for tag in sorted({message.tags for _, message in of_queue if message.tags})[:2]:
                tagged = ReadFilter(topic=topic, tags=frozenset([tag]))
                offsets = [at for at, message in everything if message.topic == topic and message.tags == tag]
                assert offsets_of(store, tagged) == offsets
            for at, message in of_queue[:2]:
                if message.transaction_type != SYS_FLAG_ROLLBACK:
                    assert all(at in offsets_of(store, ReadFilter(topic=topic, key=key)) for key in message.keys)
        if not recovered and "torn" not in name and not any(message.transaction_type for _, message in everything):
            assert scanned_bytes == 0, "the ConsumeQueues of a whole store vouch for all of its log"
