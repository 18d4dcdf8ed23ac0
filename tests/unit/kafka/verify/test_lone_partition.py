"""Verifying a partition that lies by itself: what `Log` keeps in it is not foreign."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.files.file_names import CLEANER_CHECKPOINT, LOG_START_CHECKPOINT
from logdex.kafka.log.log import Log
from logdex.kafka.verify import verify


@pytest.mark.parametrize("is_open", [False, True])
def test_everything_that_a_compacted_log_keeps_is_known(tmp_path: Path, is_open: bool) -> None:
    path = tmp_path / "events-0"
    with Log.open(str(path), cleanup_policy="compact,delete", retention_ms=-1) as log:
        for round_ in range(3):
            log.append([Record(b"k%d" % place, b"%d" % round_) for place in range(5)])
            log.roll()
        log.compact()
        log.delete_records(11)
        found = verify(str(path)) if is_open else None
    if found is None:
        found = verify(str(path))
    assert {CLEANER_CHECKPOINT, LOG_START_CHECKPOINT} <= {each.name for each in path.iterdir()}
    assert found.findings == []
    assert [info for info in found.infos if info.kind == "foreign-file"] == []


@pytest.mark.parametrize(
    ("producers", "told"), [((4,), "1 transaction is open at the end"), ((4, 5), "2 transactions are open at the end")]
)
def test_open_transactions_are_counted(tmp_path: Path, producers: tuple[int, ...], told: str) -> None:
    path = str(tmp_path / "events-0")
    with Log.open(path) as log:
        for producer in producers:
            log.append(Record(b"k"), producer_id=producer, producer_epoch=0, transactional=True)
    assert [info.message.partition(":")[0] for info in verify(path).infos if info.kind == "txn-open"] == [told]
