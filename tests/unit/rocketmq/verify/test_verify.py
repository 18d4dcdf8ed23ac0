"""verify as a whole: what is information, what callers can ask for, stores that lack things."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from logdex.errors import MissingFileError, NotAStoreError, UsageError
from logdex.kernels.rocketmq.property_crc import property_crc_of
from logdex.rocketmq.message.stored_message import StoredMessage, encode_message
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify import CHECKS, verify
from logdex.testing.store_builder import make_message, write_commit_log
from tests.golden import rocketmq as golden
from tests.unit.rocketmq.verify.store_harm import Store

SMALL = StoreConfig(
    mapped_file_size_commit_log=4096, mapped_file_size_consume_queue=200, max_hash_slot_num=31, max_index_num=40
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(golden.unpack("tiny-5.5.0", tmp_path), "tiny-5.5.0")


def messages(count: int, *, start: int = 0, queues: int = 2) -> list[StoredMessage]:
    return [
        make_message(
            queue_id=n % queues,
            queue_offset=start + n // queues,
            body=b"body %d" % n,
            store_timestamp_ms=1_700_000_000_000 + 700 * n,
            properties=[(b"KEYS", b"k-%d all" % n), (b"TAGS", b"TagA")],
        )
        for n in range(count)
    ]


def built(root: Path, rows: list[StoredMessage], *, first_file: int = 0, config: StoreConfig = SMALL) -> Path:
    """A store of these messages, rebuilt in place."""
    size = config.mapped_file_size_commit_log
    write_commit_log(str(root), rows, size, start_offset=first_file * size)
    rebuild(str(root), str(root), config, in_place=True, sync=False)
    for path in (root / "commitlog").iterdir():
        assert path.stat().st_size == size
    return root


def look(root: Path, config: StoreConfig = SMALL) -> tuple[list[tuple[str, int]], set[str]]:
    """(check, position) of findings, and the kinds of information."""
    report = verify(str(root), config)
    return [(finding.check, finding.position) for finding in report.findings], {info.kind for info in report.infos}


def test_what_rebuild_wrote_is_sound(tmp_path: Path) -> None:
    assert look(built(tmp_path, messages(120))) == ([], {"no-checkpoint"})
    report = verify(str(tmp_path), SMALL)
    assert report.is_sound
    assert (report.messages, report.engine, report.tasks) == (120, "local", 1)
    json = report.to_json()
    assert (json["messages"], json["findings"], json["lossy"]) == (120, 0, False)
    assert json["files"] == sum(path.is_file() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("version", ["4.7.0", "4.9.7", "5.3.3", "5.5.0"])
def test_every_dialect(version: str, tmp_path: Path) -> None:
    config = replace(SMALL, dialect=Dialect.of(version))
    assert look(built(tmp_path, messages(60), config=config), config)[0] == []


def test_a_log_that_does_not_begin_at_0(tmp_path: Path) -> None:
    assert look(built(tmp_path, messages(60, start=33), first_file=3)) == ([], {"no-checkpoint"})


def test_missing_messages_in_the_middle_are_information(tmp_path: Path) -> None:
    rows = messages(60)
    del rows[20:26]
    assert look(built(tmp_path, rows)) == ([], {"no-checkpoint", "queue-offset-gap"})


def test_repeated_queue_offset(tmp_path: Path) -> None:
    rows = messages(40)
    rows[30] = replace(rows[30], queue_offset=rows[28].queue_offset)
    findings = verify(str(built(tmp_path, rows)), SMALL).findings
    assert [finding.check for finding in findings] == ["message-queue-offset"]
    assert findings[0].mend.startswith("the message is in the log, logdex cat shows it: put it again")


def test_a_queue_made_anew_of_a_log_with_a_gap_is_rebuilt(tmp_path: Path) -> None:
    """A broker that makes a ConsumeQueue anew puts entries one behind the other, also over a gap in
    the offsets."""
    rows = messages(60)
    built(tmp_path, rows)
    for path in (tmp_path / "commitlog").iterdir():
        path.unlink()
    rows[20:] = [replace(row, queue_offset=row.queue_offset + 5) for row in rows[20:]]
    write_commit_log(str(tmp_path), rows, SMALL.mapped_file_size_commit_log)
    findings = verify(str(tmp_path), SMALL).findings
    assert {finding.check for finding in findings} == {"message-queue-offset"}
    assert len(findings) == 40
    assert all(f"logdex rebuild {tmp_path}" in finding.mend for finding in findings)
    rebuild(str(tmp_path), str(tmp_path), SMALL, in_place=True, sync=False)
    assert look(tmp_path) == ([], {"no-checkpoint", "queue-offset-gap"})


def test_property_crc(tmp_path: Path) -> None:
    rows = messages(3)
    built(tmp_path, rows)
    path = tmp_path / "commitlog" / f"{0:020d}"
    at = len(encode_message(rows[0]))
    second = replace(rows[1], properties_raw=rows[1].properties_raw + bytes(20), physical_offset=at)
    head = encode_message(second)[:-20]
    data = path.read_bytes()
    third = encode_message(replace(rows[2], physical_offset=at + len(head) + 20))
    new = data[:at] + head + property_crc_of(head) + third
    path.write_bytes(new.ljust(len(data), b"\0"))
    shutil.rmtree(tmp_path / "consumequeue")
    shutil.rmtree(tmp_path / "index")
    rebuild(str(tmp_path), str(tmp_path), SMALL, in_place=True, sync=False)
    assert look(tmp_path)[0] == []
    place = at + 40  # the born timestamp, which nothing else covers
    harmed = bytearray(path.read_bytes())
    harmed[place] ^= 1
    path.write_bytes(harmed)
    assert look(tmp_path)[0] == [("message-property-crc", at + len(head))]


def test_abort_makes_lacks_information(store: Store) -> None:
    shutil.rmtree(store.root / "index")
    assert store.found() == [("index-missing-range", "index", 0)]
    (store.root / "abort").write_bytes(b"123")
    assert store.found() == []
    assert store.kinds() >= {"unclean-end", "index-missing-range"}


def test_derived_directories_gone(store: Store) -> None:
    shutil.rmtree(store.root / "index")
    shutil.rmtree(store.root / "consumequeue")
    assert store.found() == [("consume-queue-missing", "consumequeue", 0), ("index-missing-range", "index", 0)]


def test_entries_that_recovery_cut_are_information(tmp_path: Path) -> None:
    root = built(tmp_path, messages(60))
    rows = messages(60)[:50]
    for path in (root / "commitlog").iterdir():
        path.unlink()
    shutil.rmtree(root / "index")
    write_commit_log(str(root), rows, 4096)
    shutil.move(root / "consumequeue", root / "kept")
    rebuild(str(root), str(root), SMALL, in_place=True, sync=False)
    shutil.rmtree(root / "consumequeue")
    shutil.move(root / "kept", root / "consumequeue")
    assert look(root) == ([], {"no-checkpoint", "consume-queue-stale-entries"})


def test_queue_without_messages_is_information(store: Store) -> None:
    source = next((store.root / "consumequeue").glob("*/*/00000000000000000000"))
    folder = store.root / "consumequeue" / "Gone" / "0"
    folder.mkdir(parents=True)
    (folder / source.name).write_bytes(bytes(source.stat().st_size))
    assert store.found() == []
    assert "queue-without-messages" in store.kinds()


def test_checks_limit_what_is_reported(store: Store) -> None:
    path, at, message = store.plain_message()
    store.change(path, at + 35)
    store.change(*store.queue_entry(message))
    assert [check for check, _, _ in store.found()] == ["message-physical-offset", "consume-queue-offset"]
    assert [check for check, _, _ in store.found(checks=["consume-queue-offset"])] == ["consume-queue-offset"]
    with pytest.raises(UsageError, match="no such check: nonsense"):
        store.verify(checks=["nonsense"])


def test_max_findings(store: Store) -> None:
    for path in (store.root / "consumequeue").glob("*/*/0*"):
        path.write_bytes(bytes(path.stat().st_size))
    report = store.verify(max_findings=7)
    assert len(report.findings) == 7
    assert report.truncated > 100
    assert report.to_json()["findings"] == 7 + report.truncated


def test_progress(store: Store) -> None:
    seen: list[tuple[int, int]] = []
    report = store.verify(progress=lambda count, size: seen.append((count, size)))
    assert seen == sorted(seen)
    assert seen[-1] == (report.messages, report.bytes)


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        verify(str(tmp_path), SMALL)
    (tmp_path / "commitlog").mkdir()
    with pytest.raises(NotAStoreError):
        verify(str(tmp_path), SMALL)


def test_wrong_geometry_is_said_once_a_file(store: Store) -> None:
    wrong = replace(store.config, max_hash_slot_num=store.config.max_hash_slot_num + 1)
    report = verify(str(store.root), wrong)
    files = sorted(str(path) for path in (store.root / "index").iterdir())
    assert [finding.path for finding in report.findings] == files
    assert {finding.check for finding in report.findings} == {"index-file-size"}
    assert "--max-hash-slot-num" in report.findings[0].mend


def test_names_of_checks_are_stable() -> None:
    assert all(name == name.lower() and " " not in name for name in CHECKS)
    assert list(CHECKS) == sorted(CHECKS)


def test_a_damaged_log_is_mended_before_what_is_derived_from_it(store: Store) -> None:
    log_path, log_at, _ = store.plain_message(20)
    queue_path, queue_at = store.queue_entry(store.plain_message(150)[2])
    store.change(log_path, log_at + 5)
    store.change(queue_path, queue_at + 11)
    of_log, of_queue = store.verify().findings
    assert of_log.mend.endswith(f"; if there is none, logdex recover {store.root} --output DIR")
    assert of_queue.mend == f"logdex rebuild {store.root} --output DIR; mend the CommitLog first"
