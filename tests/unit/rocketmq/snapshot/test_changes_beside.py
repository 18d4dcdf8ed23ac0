"""Reads of a store while a topic is deleted or created again, the old files of a queue are removed,
or the log is cut and goes on with other messages. No answer is wrong, and none fails."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from logdex.io.env import Env
from logdex.rocketmq.recover import recover
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.beside import At, become
from tests.examples import some
from tests.unit.rocketmq.small_stores import CONFIG, CUT, MESSAGES, REGROWN, START_MS, build, message, numbers

NEW = [message(number, body=b"new", store_timestamp_ms=START_MS + 100_000 + number) for number in range(25)]
"""What is put into the topic once it was created again."""


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The store, and what it is after each event."""
    home = tmp_path_factory.mktemp("stores")
    whole = build(home / "whole", MESSAGES)
    found = {
        "whole": whole,
        "created again": build(home / "again", MESSAGES + NEW),
        "cut": build(home / "cut", CUT),
        "regrown": build(home / "regrown", REGROWN),
        "deleted": Path(shutil.copytree(whole, home / "deleted")),
        "expired": Path(shutil.copytree(whole, home / "expired")),
    }
    shutil.rmtree(found["deleted"] / "consumequeue" / "TopicA")
    for path in sorted((found["expired"] / "consumequeue/TopicA/0").iterdir())[:-1]:
        path.unlink()
    return found


def change(root: Path, after: Path) -> None:
    if after.name == "again":
        shutil.rmtree(root / "consumequeue" / "TopicA")
    become(root, after)


def by_page(snapshot: StoreSnapshot) -> list[int]:
    found, offset = list[int](), 0
    while (page := snapshot.get_message("TopicA", 0, offset, max_count=6)).next_begin_offset > offset:
        assert page.problem is None
        found += numbers(page.messages)
        offset = page.next_begin_offset
    return found


def by_column(snapshot: StoreSnapshot) -> list[int]:
    found, offset = list[int](), 0
    while (page := snapshot.get_columns("TopicA", 0, offset, 6, columns=["queue_offset"])).next_begin_offset > offset:
        found += page.table["queue_offset"].to_pylist()
        offset = page.next_begin_offset
    return found


def tail(snapshot: StoreSnapshot) -> list[int]:
    found = snapshot.get_tail("TopicA", 0, 60)
    assert found.problems == []
    return [message.queue_offset for _, message in found.messages]


def by_key(snapshot: StoreSnapshot) -> list[int]:
    snapshot.queues()
    found = snapshot.query_message("TopicA", "hot", scan_missing=True)
    assert found.complete, found.unreadable
    return numbers(reversed(found.messages))


def scanned(snapshot: StoreSnapshot) -> list[int]:
    scan = snapshot.scan()
    found = numbers(scan)
    assert all("the log was cut while it was read" in loss for loss in scan.losses)
    return sorted(set(found))  # a topic that was created again has each number twice


CUTS = ("cut", "regrown")


@pytest.mark.parametrize(
    ("event", "read"),
    [(event, read) for event in ("deleted", "created again", "expired", *CUTS) for read in (by_page, by_column, tail)]
    + [(event, by_key) for event in CUTS]
    + [("cut", scanned)],
)
def test_a_store_changes_before_any_operation(
    stores: dict[str, Path], event: str, read: Callable[[StoreSnapshot], list[int]], tmp_path: Path
) -> None:
    def run(root: Path, env: Env) -> list[int]:
        with StoreSnapshot(root, config=CONFIG, env=env) as snapshot:
            return read(snapshot)

    still = At(0, lambda: None)
    right = {*run(stores["whole"], still), *run(stores[event], Env())}
    for number in some(range(1, -still.left + 1, max(-still.left // 200, 1)), 7):
        root = Path(shutil.copytree(stores["whole"], tmp_path / str(number)))
        found = run(root, At(number, partial(change, root, stores[event])))
        assert found == sorted(set(found)), number
        assert right.issuperset(found), number
        shutil.rmtree(root)


def test_a_snapshot_is_refreshed_after_its_topic_was_deleted(stores: dict[str, Path], tmp_path: Path) -> None:
    root = Path(shutil.copytree(stores["whole"], tmp_path / "store"))
    with StoreSnapshot(root, config=CONFIG) as snapshot:
        assert len(by_page(snapshot)) == len(MESSAGES)
        become(root, stores["deleted"])
        snapshot.refresh()
        assert by_page(snapshot) == []
        become(root, stores["whole"])
        assert len(by_page(snapshot)) == len(MESSAGES)


@pytest.mark.parametrize("event", ["grown", *CUTS])
def test_recover_beside_a_broker_that_shuts_down(stores: dict[str, Path], event: str, tmp_path: Path) -> None:
    """The index that recover reads at its end may tell of messages that came after it had read."""
    after = Path(shutil.copytree(stores.get(event, stores["created again"]), tmp_path / "after"))
    whole = Path(shutil.copytree(stores["whole"], tmp_path / "whole"))
    (whole / "abort").write_bytes(b"")
    still = At(0, lambda: None)
    recover(str(whole), str(tmp_path / "out"), CONFIG, sync=False, env=still)
    for number in some(range(1, -still.left + 1), 5):
        root = Path(shutil.copytree(whole, tmp_path / f"copy-{number}"))
        env = At(number, partial(become, root, after))
        report = recover(str(root), str(tmp_path / f"out-{number}"), CONFIG, sync=False, env=env)
        assert not report.lossy, (number, report.losses, report.skipped)
