"""What a rebuild does with queues that it cannot derive: none of them is lost."""

from __future__ import annotations

import shutil
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from logdex.errors import UnsupportedLayoutError
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY
from logdex.rocketmq.rebuild import RebuildReport, rebuild, rebuild_on
from logdex.testing.store_builder import make_message
from tests.beside import At
from tests.directories import contents
from tests.unit.rocketmq.rebuild.test_job import Serial, facts
from tests.unit.rocketmq.small_stores import CONFIG, FILE_SIZE, build

ENTRIES = CONFIG.consume_queue_file_size_bytes // 20


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store whose first CommitLog file has expired, and with it all messages of Old."""
    old = [make_message(b"Old", queue_offset=number) for number in range(3)]
    new = [make_message(b"New", queue_offset=number) for number in range(40)]
    root = build(tmp_path / "store", [*old, *new])
    (root / "commitlog" / f"{0:020d}").unlink()
    return root


def rebuilt(store: Path, tmp_path: Path) -> RebuildReport:
    one = rebuild(store, tmp_path / "local", CONFIG, sync=False)
    other = rebuild_on(Serial(), store, tmp_path / "tasks", CONFIG, sync=False, part_size_bytes=600)
    assert facts(one) == facts(other)
    assert contents(tmp_path / "local") == contents(tmp_path / "tasks")
    return one


def test_a_queue_whose_messages_have_expired_keeps_its_offsets(store: Path, tmp_path: Path) -> None:
    queue = Path("consumequeue/Old/0") / f"{0:020d}"
    before = (store / queue).read_bytes()
    report = rebuilt(store, tmp_path)
    assert (report.queues, report.expired_queues, report.stale_queues, report.losses) == (1, 1, 0, [])
    assert (tmp_path / "local" / queue).read_bytes() == before
    assert report.files == len(contents(tmp_path / "local"))
    in_place = rebuild(store, store, CONFIG, in_place=True, sync=False)
    assert (in_place.expired_queues, (store / queue).read_bytes()) == (1, before)


def test_a_queue_that_names_messages_that_the_log_does_not_have_is_left_out(store: Path, tmp_path: Path) -> None:
    queue = store / "consumequeue" / "Stale" / "0" / f"{0:020d}"
    queue.parent.mkdir(parents=True)
    queue.write_bytes(CONSUME_QUEUE_ENTRY.pack(9 * FILE_SIZE, 100, 0).ljust(20 * ENTRIES, b"\0"))
    report = rebuilt(store, tmp_path)
    assert (report.expired_queues, report.stale_queues) == (1, 1)
    assert not (tmp_path / "local" / "consumequeue" / "Stale").exists()
    kept = rebuild(store, store, CONFIG, in_place=True, sync=False).kept["consumequeue"]
    assert (Path(kept) / "Stale" / "0" / f"{0:020d}").exists()


def test_a_consume_queue_ext_is_refused_by_name(store: Path, tmp_path: Path) -> None:
    (store / "consumequeue_ext" / "New" / "0").mkdir(parents=True)
    rebuild(store, tmp_path / "empty", CONFIG, sync=False)  # the broker makes the folders in any case
    (store / "consumequeue_ext" / "New" / "0" / f"{0:020d}").write_bytes(bytes(64))
    before = contents(store)
    for in_place, output in ((False, tmp_path / "out"), (True, store)):
        with pytest.raises(UnsupportedLayoutError, match="ConsumeQueueExt") as caught:
            rebuild(store, output, CONFIG, in_place=in_place, sync=False)
        assert "copy commitlog/" in str(caught.value.hint)
        with pytest.raises(UnsupportedLayoutError, match="ConsumeQueueExt"):
            rebuild_on(Serial(), store, output, CONFIG, in_place=in_place, sync=False)
    assert contents(store) == before


@pytest.mark.parametrize("removed", ["Old", f"Old/0/{0:020d}"])
def test_a_queue_that_a_broker_removes_meanwhile_is_no_loss(store: Path, tmp_path: Path, removed: str) -> None:
    """With its topic or its file alone, before any operation of the rebuild."""
    queue = Path("consumequeue") / "Old" / "0" / f"{0:020d}"
    before, copied = (store / queue).read_bytes(), 0
    for number in count(1):
        root, output = tmp_path / f"store-{number}", tmp_path / f"out-{number}"
        shutil.copytree(store, root)
        path = root / "consumequeue" / removed
        env = At(number, partial(shutil.rmtree, path) if path.is_dir() else path.unlink)
        report = rebuild(root, output, CONFIG, sync=False, env=env)
        assert (report.losses, report.stale_queues) == ([], 0)
        assert (output / queue).parent.exists() == report.expired_queues
        if (output / queue).exists():
            copied += 1
            assert (output / queue).read_bytes() == before
        shutil.rmtree(root)
        if env.left > 0:
            break
    assert 1 < copied < number
