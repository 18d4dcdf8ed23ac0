"""A store that several versions wrote is sound, whatever version is stated: the rules are those of
each file."""

from __future__ import annotations

import shutil
import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.index_file.index_service import IndexService
from logdex.rocketmq.scan import scanner
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import VerifyReport, verify
from logdex.testing.store_builder import make_message
from tests.unit.rocketmq.verify.test_verify import SMALL, built, messages


def of_version(version: str) -> StoreConfig:
    return replace(SMALL, dialect=Dialect.of(version))


def indexed_by(root: Path, versions: list[str], places: list[int], count: int = 90) -> Path:
    """A store whose messages from each place on were indexed by the next version."""
    built(root, messages(count))
    shutil.rmtree(root / "index")
    (root / "index").mkdir()
    with StoreSnapshot(str(root), config=SMALL) as store:
        rows = list(store.scan())
    for version, start, end in zip(versions, [0, *places], [*places, count], strict=True):
        with IndexService(str(root / "index"), of_version(version), writable=True) as service:
            for message in rows[start:end]:
                service.build_index(message)
    return root


def findings(report: VerifyReport) -> list[tuple[str, str]]:
    return [(finding.check, finding.message) for finding in report.findings]


@pytest.mark.parametrize("stated", ["4.9.7", "5.5.0"])
@pytest.mark.parametrize(
    ("versions", "places"),
    [
        (["4.9.7", "5.5.0"], [30]),
        (["4.9.7", "5.5.0"], [36]),
        (["4.9.7", "5.5.0"], [89]),
        (["5.5.0", "5.3.3"], [1]),
        (["5.3.3", "5.4.0", "4.9.7", "5.5.0"], [20, 41, 60]),
        (["4.7.0", "5.3.3", "5.5.0"], [25, 50]),
        (["4.9.7"], []),
        (["5.5.0"], []),
    ],
)
@pytest.mark.parametrize("window", [7, 16_384])
def test_an_upgraded_store_has_no_findings(
    versions: list[str], places: list[int], stated: str, window: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = indexed_by(tmp_path, versions, places)
    monkeypatch.setattr(scanner.Scanner.__init__, "__kwdefaults__", {**DEFAULTS, "window_messages": window})
    report = verify(str(root), of_version(stated))
    assert findings(report) == []
    changes = sum(info.kind == "index-version" for info in report.infos)
    tags = [Dialect.of(version).tags_in_index for version in [stated, *versions]]
    expected = sum(before != after for before, after in pairwise(tags))
    assert changes == expected or (changes < expected and places in ([1], [89])), "one message shows no version"


DEFAULTS = dict(scanner.Scanner.__init__.__kwdefaults__ or {})


def test_an_index_that_was_not_written_for_a_while(tmp_path: Path) -> None:
    """messageIndexEnable=false, for some messages in the middle and for the last ones."""
    config = replace(SMALL, max_index_num=400)
    built(tmp_path, messages(90), config=config)
    shutil.rmtree(tmp_path / "index")
    with StoreSnapshot(str(tmp_path), config=config) as store:
        rows = list(store.scan())
    with IndexService(str(tmp_path / "index"), config, writable=True) as service:
        for message in [*rows[:30], *rows[50:70]]:
            service.build_index(message)
    report = verify(str(tmp_path), config)
    assert findings(report) == []
    assert [info.kind for info in report.infos if "index" in info.kind] == ["index-not-written"] * 2


@pytest.mark.parametrize("first", [1, 17, 60])
def test_an_index_that_was_written_later(first: int, tmp_path: Path) -> None:
    """messageIndexEnable=false until the index has several files."""
    built(tmp_path, messages(90))
    shutil.rmtree(tmp_path / "index")
    with StoreSnapshot(str(tmp_path), config=SMALL) as store:
        rows = list(store.scan())
    with IndexService(str(tmp_path / "index"), SMALL, writable=True) as service:
        for message in rows[first:]:
            service.build_index(message)
    report = verify(str(tmp_path), SMALL)
    assert findings(report) == []
    assert [info.kind for info in report.infos if "index" in info.kind] == ["index-not-written"]


@pytest.mark.parametrize("lost", [1, 2, 5])
@pytest.mark.parametrize("first", [0, 3])
def test_index_files_that_were_lost(first: int, lost: int, tmp_path: Path) -> None:
    built(tmp_path, messages(90))
    for path in sorted((tmp_path / "index").iterdir())[first : first + lost]:
        path.unlink()
    assert [check for check, _ in findings(verify(str(tmp_path), SMALL))] == ["index-missing-range"]


def test_an_index_that_was_never_written(tmp_path: Path) -> None:
    built(tmp_path, messages(30))
    shutil.rmtree(tmp_path / "index")
    newest = messages(30)[-1].store_timestamp_ms
    checkpoint = StoreCheckpoint(physic_msg_timestamp_ms=newest, logics_msg_timestamp_ms=newest)
    (tmp_path / "checkpoint").write_bytes(checkpoint.pack().ljust(4096, b"\0"))
    assert findings(verify(str(tmp_path), SMALL)) == []
    checkpoint = replace_field(checkpoint, index_msg_timestamp_ms=newest)
    (tmp_path / "checkpoint").write_bytes(checkpoint.pack().ljust(4096, b"\0"))
    assert [check for check, _ in findings(verify(str(tmp_path), SMALL))] == ["index-missing-range"]


def replace_field(checkpoint: StoreCheckpoint, **fields: int) -> StoreCheckpoint:
    return checkpoint._replace(**fields)


@pytest.mark.parametrize("place", [3, 30, 60])
def test_a_harmed_tag_entry_is_found(place: int, tmp_path: Path) -> None:
    root = indexed_by(tmp_path, ["5.5.0"], [])
    path = sorted((root / "index").iterdir())[1]
    data = bytearray(path.read_bytes())
    at = 40 + 4 * 31 + 20 * (place % 39 + 1)
    data[at] ^= 0x10
    path.write_bytes(data)
    report = verify(str(root), of_version("5.5.0"))
    assert [check for check, _ in findings(report)] == ["index-entry-hash"]


@pytest.mark.parametrize("between", [False, True])
def test_a_topic_that_was_created_again_with_messages_in_another_queue(between: bool, tmp_path: Path) -> None:
    """The queues of its earlier life are gone. If its messages lie among those of a queue that is
    there, they are of the same life, and their ConsumeQueue is missing."""
    places = [(0, 0), (1, 0), (0, 1), (2, 0), (2, 1), (2, 2)]
    rows = [make_message(b"T", queue_id=queue_id, queue_offset=offset) for queue_id, offset in places]
    if between:
        rows.append(make_message(b"T", queue_id=1, queue_offset=1))
    built(tmp_path, rows)
    for queue_id in ("0", "1"):
        shutil.rmtree(tmp_path / "consumequeue" / "T" / queue_id)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_text('{"topicConfigTable":{"T":{"topicName":"T","writeQueueNums":4}}}')
    report = verify(str(tmp_path), SMALL)
    assert [check for check, _ in findings(report)] == ["consume-queue-missing"] * between
    assert [info.kind for info in report.infos if "queue" in info.kind] == ["deleted-queue"] * (2 - between)


@pytest.mark.parametrize("first", [3, 12, 33])
def test_a_queue_that_a_recovery_made_anew(first: int, tmp_path: Path) -> None:
    """The topic was deleted, and a crash came before its CommitLog files were gone: the broker's
    next start makes the queue anew of the messages that it reads, and fills the places before with
    pre-blank entries."""
    built(tmp_path, messages(90))
    queue = tmp_path / "consumequeue" / "TopicA" / "0"
    for path in queue.iterdir():
        if int(path.name) + 200 <= first * 20:
            path.unlink()
    begin = min(queue.iterdir())
    at = first * 20 - int(begin.name)
    begin.write_bytes(struct.pack(">qiq", 0, 0x7FFFFFFF, 0) * (at // 20) + begin.read_bytes()[at:])
    report = verify(str(tmp_path), SMALL)
    assert findings(report) == []
    assert [info.message.split()[0] for info in report.infos if info.kind == "earlier-life"] == [str(first)]
    data = bytearray(begin.read_bytes())
    data[at + 20 + 10] ^= 1
    begin.write_bytes(data)
    assert [check for check, _ in findings(verify(str(tmp_path), SMALL))] == ["consume-queue-size"]
