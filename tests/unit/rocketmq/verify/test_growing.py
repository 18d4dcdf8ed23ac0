"""Checks and scans beside a broker that writes: nothing is found, whatever moment each byte is looked at."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from tests.examples import cases
from tests.unit.rocketmq.verify.growing import GrowingStore, WatchedEnv
from tests.unit.rocketmq.verify.test_verify import SMALL, messages


@pytest.mark.parametrize(
    ("count", "steps"), cases(itertools.product([0, 1, 7, 20, 33], [1, 2, 3, 5, 8, 13, 21, 34]), 7)
)
def test_verify_beside_a_broker(count: int, steps: int, tmp_path: Path) -> None:
    store = GrowingStore(tmp_path / "store", messages(60), max(count, 1), SMALL)
    store.step(count)  # in the middle of a message or an entry
    for _ in range(3):
        report = verify(str(store.root), SMALL, env=WatchedEnv(store, steps))
        assert [(finding.check, finding.path, finding.message) for finding in report.findings] == []
        assert report.is_sound
    store.step(10**6)
    report = verify(str(store.root), SMALL)
    assert (report.findings, report.messages) == ([], 60)


@pytest.mark.parametrize(("count", "steps"), cases(itertools.product([1, 7, 20, 33], [1, 2, 3, 5, 8]), 6))
def test_scans_beside_a_broker(count: int, steps: int, tmp_path: Path) -> None:
    store = GrowingStore(tmp_path / "store", messages(60), count, SMALL)
    for _ in range(20):
        with StoreSnapshot(str(store.root), config=SMALL, env=WatchedEnv(store, steps)) as snapshot:
            scan = snapshot.scan()
            found = [at for at, _ in scan.items()]
        assert scan.end is not None
        assert scan.end.is_clean, scan.end
        assert len(found) >= count
        assert found == [message.physical_offset for message in store.rows[: len(found)]]
        count = len(found)
