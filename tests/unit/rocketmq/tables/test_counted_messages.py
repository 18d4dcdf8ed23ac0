"""Counts of messages by queue come from the ConsumeQueues where these vouch for the whole log, else
from the log, and are always those of the log."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import LogdexError, StorageError
from logdex.frames.conditions import Conditions
from logdex.frames.scan_frames import ScanSource
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY, SYS_FLAG_PREPARED
from logdex.rocketmq import Message, MessageStore
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.read.message_scan import LogScan
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.tables.counted_messages import CountedMessages
from tests.examples import cases
from tests.golden import rocketmq as golden
from tests.unit.rocketmq.small_stores import CONFIG, build, message

ENTRY = CONSUME_QUEUE_ENTRY.size_bytes
COLUMNS = ["topic", "queue_id"]


def messages(**odd: Any) -> list[StoredMessage]:
    """40 messages of two topics with two queues each; `odd` changes the eighth."""
    places: Counter[tuple[int, int]] = Counter()
    made = []
    for number in range(40):
        queue = (number % 3 % 2, number % 2)
        changes = odd if number == 8 else {}
        made.append(message(places[queue], queue_id=queue[1], topic=b"T%d" % queue[0], **changes))
        places[queue] += 1
    return made


def rows_of(table: CountedMessages | ScanSource, columns: list[str] = COLUMNS) -> Counter[tuple[object, ...]]:
    """How often each row is there."""
    found: Counter[tuple[object, ...]] = Counter()
    for batch in table.batches(columns, Conditions()):
        found.update(tuple(row[name] for name in columns) for row in batch.to_pylist())
    return found


def ends_of(scans: list[LogScan]) -> list[object]:
    return [scan.end for scan in scans]


def require_the_logs_rows(root: Path) -> bool:
    """Requires that a count has the rows and the end of a scan. Returns whether it was made from
    the ConsumeQueues."""
    with StoreSnapshot(str(root), config=CONFIG) as store:
        counted, scanned = CountedMessages(store.scan()), ScanSource(store.scan())
        for columns in (COLUMNS, ["topic"], ["queue_id"]):
            assert rows_of(counted, columns) == rows_of(scanned, columns)
        assert set(map(str, ends_of(counted.scans))) == set(map(str, ends_of(scanned.scans)))
        return counted.counts() is not None


def entry_file(root: Path, topic: str = "T0", queue_id: int = 0) -> Path:
    return min((root / "consumequeue" / topic / str(queue_id)).iterdir())


def test_queues_that_vouch_for_the_log_are_counted(tmp_path: Path) -> None:
    root = build(tmp_path / "store", messages())
    assert require_the_logs_rows(root)
    with StoreSnapshot(str(root), config=CONFIG) as store:
        table = CountedMessages(store.scan())
        assert sum(batch.num_rows for batch in table.batches([], Conditions())) == 40
        assert len(table.scans) == 1
        assert sum(batch.num_rows for batch in table.batches(["topic", "body"], Conditions())) == 40
        assert len(table.scans) == 2


def test_a_refreshed_snapshot_is_counted_again(tmp_path: Path) -> None:
    root, some = tmp_path / "store", messages()
    build(root, some[:20])
    with StoreSnapshot(str(root), config=CONFIG) as store:
        table = CountedMessages(store.scan())
        assert sum(rows_of(table).values()) == 20
        shutil.rmtree(root)
        build(root, some)
        store.refresh()
        assert sum(rows_of(table).values()) == 40


@pytest.mark.parametrize("where", ["commitlog/*", "consumequeue/*/*/*"])
@pytest.mark.parametrize("place", [0, 1, -1])
@pytest.mark.parametrize("size_bytes", [0, 30, 130])
def test_a_file_that_shrinks_after_the_store_was_opened(
    tmp_path: Path, where: str, place: int, size_bytes: int
) -> None:
    root = build(tmp_path / "store", messages())
    with StoreSnapshot(str(root), config=CONFIG) as store:
        counted, scanned = CountedMessages(store.scan()), ScanSource(store.scan())
        assert store.scan().upto() is not None
        os.truncate(sorted(root.glob(where))[place], size_bytes)
        outcomes: list[object] = []
        for table in (counted, scanned):
            try:
                outcomes.append((rows_of(table), set(map(str, ends_of(table.scans)))))
            except LogdexError as error:
                outcomes.append((type(error), error.path if isinstance(error, StorageError) else None))
        assert outcomes[0] == outcomes[1]


def test_what_a_writer_puts_after_the_store_was_opened_is_not_counted(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with MessageStore.open(root) as writer:
        for number in range(30):
            writer.put_message(Message("orders", b"%d" % number))
    with StoreSnapshot(str(root)) as store:
        counted, scanned = CountedMessages(store.scan()), ScanSource(store.scan())
        assert store.scan().upto() is not None
        with MessageStore.open(root) as writer:
            writer.put_message(Message("orders", b"later"))
            assert counted.counts() is None  # an open store has the file abort
            assert rows_of(counted) == rows_of(scanned)
        anew = CountedMessages(store.scan())
        assert sum(rows_of(anew).values()) == 30
        assert anew.counts() is not None
        store.refresh()
        assert sum(rows_of(anew).values()) == 31


def test_many_rows_of_a_queue_come_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logdex.rocketmq.tables.counted_messages._BATCH_ROWS", 7)
    monkeypatch.setattr("logdex.rocketmq.read.parts.queue_counts.PIECE_BYTES", 500)
    assert require_the_logs_rows(build(tmp_path / "store", messages()))


def no_abort(root: Path) -> None:
    (root / "abort").write_text("1")


def an_entry_is_gone(root: Path) -> None:
    path = entry_file(root)
    data = path.read_bytes()
    path.write_bytes(data[:ENTRY] + data[2 * ENTRY :] + bytes(ENTRY))


def a_queue_is_gone(root: Path) -> None:
    path = entry_file(root)
    for each in path.parent.iterdir():
        each.unlink()
    path.parent.rmdir()


def an_entry_is_there_twice(root: Path) -> None:
    path = entry_file(root, "T1", 1)
    data = path.read_bytes()
    path.write_bytes(data[: 2 * ENTRY] + data[ENTRY : 2 * ENTRY] + data[3 * ENTRY :])


def folders_have_each_others_names(root: Path) -> None:
    one, other = (root / "consumequeue" / "T0" / name for name in "01")
    one.rename(one.with_name("9"))
    other.rename(one)
    one.with_name("9").rename(other)


def the_last_file_is_gone(root: Path) -> None:
    max((root / "commitlog").iterdir()).unlink()


def a_file_between_is_gone(root: Path) -> None:
    sorted((root / "commitlog").iterdir())[1].unlink()


def the_end_is_torn(root: Path) -> None:
    path = max((root / "commitlog").iterdir())
    data = path.read_bytes().rstrip(b"\0")
    path.write_bytes(data[:-20] + bytes(path.stat().st_size - len(data) + 20))


HARMS = [
    *(no_abort, an_entry_is_gone, a_queue_is_gone, an_entry_is_there_twice, folders_have_each_others_names),
    *(the_last_file_is_gone, a_file_between_is_gone, the_end_is_torn),
]


@pytest.mark.parametrize("harm", HARMS)
def test_queues_that_do_not_are_not_believed(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    root = build(tmp_path / "store", messages())
    harm(root)
    assert not require_the_logs_rows(root)


def test_a_light_queue_has_no_messages_of_its_own(tmp_path: Path) -> None:
    root = build(tmp_path / "store", messages())
    folder = root / "consumequeue" / "%LMQ%x" / "0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").write_bytes(entry_file(root).read_bytes())
    assert require_the_logs_rows(root)


def test_a_message_without_an_entry(tmp_path: Path) -> None:
    assert not require_the_logs_rows(build(tmp_path / "store", messages(sys_flag=SYS_FLAG_PREPARED)))


@pytest.mark.parametrize("seed", cases(range(60), 8))
def test_any_changed_bytes_of_queues(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    root = build(tmp_path / "store", messages())
    for _ in range(chance.choice((1, 1, 3))):
        path = chance.choice(sorted(root.glob("consumequeue/*/*/*")))
        data = bytearray(path.read_bytes())
        at = chance.randrange(len(data))
        data[at] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
    require_the_logs_rows(root)


@pytest.mark.parametrize("name", cases(golden.NAMES, 4))
def test_stores_of_real_brokers(name: str, golden_store: Callable[[str], Path]) -> None:
    root = golden_store(name)
    with StoreSnapshot(str(root)) as store:
        counted, scanned = CountedMessages(store.scan()), ScanSource(store.scan())
        assert rows_of(counted) == rows_of(scanned)
        assert set(map(str, ends_of(counted.scans))) == set(map(str, ends_of(scanned.scans)))
