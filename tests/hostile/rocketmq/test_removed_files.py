"""A broker removes the oldest CommitLog files while they are read: readers go on behind them."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.errors import VanishedError
from logdex.formats import detect, format_of
from logdex.io.env import Env, ReadFile
from logdex.rocketmq.files.offset_files import list_offset_files
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.read.read_filter import ReadFilter
from logdex.rocketmq.rebuild import rebuild, rebuild_on
from logdex.rocketmq.snapshot.overview import overview
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from tests.beside import At
from tests.examples import some
from tests.hostile.rocketmq.cut_readers import CONFIG, MESSAGES, make, store
from tests.unit.rocketmq.rebuild.test_job import Serial
from tests.unit.rocketmq.small_stores import CONFIG as SMALL
from tests.unit.rocketmq.small_stores import build, message

FIRST = CONFIG.mapped_file_size_commit_log
"""The offset where the log begins once its first file is removed."""


class TrimmingEnv(Env):
    """Removes a file just before it is opened, as a broker may at any time; or does what `trim`
    does."""

    def __init__(self, path: Path, trim: Callable[[], object] | None = None, opens: int = 1) -> None:
        super().__init__()
        self._path = path
        self._left = opens
        self._trim = trim or (lambda: path.unlink(missing_ok=True))

    def open_read(self, path: str) -> ReadFile:
        if path == str(self._path):
            self._left -= 1
            if self._left <= 0:
                self._trim()
        return super().open_read(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("expired") / "store")


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "store"))


def oldest(root: Path) -> Path:
    return root / "commitlog" / f"{0:020d}"


def kept(root: Path) -> list[StoredMessage]:
    """The messages behind the first file."""
    with store(root, Env()) as opened:
        return [message for message in opened.scan() if message.physical_offset >= FIRST]


def test_a_scan_goes_on_behind_it_and_says_so(root: Path) -> None:
    messages = kept(root)
    with store(root, TrimmingEnv(oldest(root))) as opened:
        scan = opened.scan()
        assert [*scan] == messages
    assert scan.trimmed == [str(oldest(root))]
    assert scan.end is not None
    assert scan.end.is_clean


@pytest.mark.parametrize("read", ["scan", "verify", "rebuild"])
def test_the_last_files_that_were_listed_are_removed_too(root: Path, tmp_path: Path, read: str) -> None:
    """A broker has written on in a file that it had allocated in advance, and has removed that
    too."""
    before = kept(root)
    newest = max(path for path in (root / "commitlog").iterdir())
    allocated, later = (newest.with_name(f"{int(newest.name) + FIRST * number:020d}") for number in (1, 2))
    allocated.write_bytes(bytes(FIRST))

    def trim() -> None:
        later.write_bytes(bytes(FIRST))
        for path in sorted((root / "commitlog").iterdir())[:-1]:
            path.unlink()

    # A scan looks for the end first, and a rebuild for the end and at the names.
    env = TrimmingEnv(allocated, trim, opens={"scan": 2, "verify": 1, "rebuild": 3}[read])
    if read == "scan":
        with store(root, env) as opened:
            scan = opened.scan()
            assert [*scan][-1] == before[-1]
        assert scan.end is not None
        assert scan.end.is_clean
    elif read == "verify":
        assert [str(finding) for finding in verify(root, CONFIG, env=env).findings] == []
    else:
        report = rebuild(root, tmp_path / "out", CONFIG, sync=False, env=env)
        assert (report.messages, report.losses) == (MESSAGES, [])


def test_reads_through_queues_and_splits_go_on_behind_it(root: Path) -> None:
    messages = kept(root)
    wanted = [message for message in messages if message.topic == b"TopicA"]
    with store(root, Env()) as opened:
        plan, by_key = opened.plan_read(ReadFilter()), opened.plan_read(ReadFilter(topic=b"TopicA", key=b"key-4"))
        scan = opened.scan("TopicA")
        oldest(root).unlink()
        assert [*scan] == wanted
        offsets = [
            offset
            for split in plan.splits
            for batch in split.to_batches()
            for offset in batch.column("physical_offset").to_pylist()
        ]
        assert offsets == [message.physical_offset for message in messages]
        rows = sum(batch.num_rows for split in by_key.splits for batch in split.to_batches())
        assert rows == sum(b"key-4" in message.keys for message in wanted)


def test_queries_and_gets_answer_from_what_is_left(root: Path) -> None:
    messages = kept(root)
    with store(root, Env()) as opened:
        assert opened.valid_end_offset
        oldest(root).unlink()
        found = opened.query_message("TopicA", "key-4")
        assert found.complete
        of_queue = [message for message in messages if (message.topic, message.queue_id) == (b"TopicA", 0)]
        assert opened.get_message("TopicA", 0, 0).messages[0] == of_queue[0]
        assert {message.physical_offset for message in found.messages} == {
            message.physical_offset for message in messages if message.topic == b"TopicA" and b"key-4" in message.keys
        }


def test_verify_finds_nothing_wrong(root: Path) -> None:
    report = verify(root, CONFIG, env=TrimmingEnv(oldest(root)))
    assert [str(finding) for finding in report.findings] == []
    assert "log-file-removed" in {info.kind for info in report.infos}


def test_verify_looks_again_if_an_engine_starts(root: Path) -> None:
    """After a crash, an engine first removes IndexFiles."""
    log = root / "commitlog" / f"{FIRST:020d}"

    def start() -> None:
        (root / "abort").touch()
        shutil.rmtree(root / "index", ignore_errors=True)

    report = verify(root, CONFIG, env=TrimmingEnv(log, start))
    assert [str(finding) for finding in report.findings] == []
    assert "unclean-end" in {info.kind for info in report.infos}


def test_verify_goes_on_where_the_last_file_is_removed(root: Path) -> None:
    newest = max((root / "commitlog").iterdir())
    later = newest.with_name(f"{int(newest.name) + FIRST:020d}")

    def trim() -> None:
        (root / "abort").touch()
        later.write_bytes(bytes(FIRST))
        for path in sorted((root / "commitlog").iterdir())[:-1]:
            path.unlink()

    report = verify(root, CONFIG, env=TrimmingEnv(newest, trim))
    assert [str(finding) for finding in report.findings] == []


@pytest.mark.parametrize("opens", [2, 3, 4])
def test_verify_beside_an_engine_that_writes_on_when_the_next_file_is_read(root: Path, opens: int) -> None:
    """A file is allocated in advance. The log ends in the one before it, also if that grows
    meanwhile."""
    newest = max((root / "commitlog").iterdir())
    allocated = newest.with_name(f"{int(newest.name) + FIRST:020d}")
    allocated.write_bytes(bytes(FIRST))
    (root / "abort").touch()
    with store(root, Env()) as opened:
        last, end = [*opened.scan()][-1], opened.valid_end_offset
        queue = opened.consume_queue(last.topic, last.queue_id)
        file, position = queue.place_of(last.queue_offset)

    def write_on() -> None:
        with Path(file.path).open("r+b") as entries:
            entries.seek(position + 20)
            entries.write(struct.pack(">qiq", end, 100, 0))
        with newest.open("r+b") as log:
            log.seek(end - int(newest.name))
            log.write(b"a message")

    report = verify(root, CONFIG, env=TrimmingEnv(allocated, write_on, opens))
    assert [str(finding) for finding in report.findings] == []
    assert report.messages == MESSAGES


class Trimming(Serial):
    """Removes a file before the first tasks run."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def run(self, name: str, function: Callable[..., Any], tasks: Sequence[Any]) -> list[Any]:
        self._path.unlink(missing_ok=True)
        return super().run(name, function, tasks)


def test_rebuilds_derive_what_is_left_and_say_so(root: Path, tmp_path: Path) -> None:
    messages = len(kept(root))
    parts = Path(shutil.copytree(root, tmp_path / "parts"))
    report = rebuild(root, tmp_path / "out", CONFIG, sync=False, env=TrimmingEnv(oldest(root)))
    runner = Trimming(oldest(parts))
    parallel = rebuild_on(runner, parts, tmp_path / "again", CONFIG, sync=False, part_size_bytes=50_000)
    for each in (report, parallel):
        assert each.messages == messages < MESSAGES
        assert each.losses == []
        assert [note for note in each.notes if "removed by the broker meanwhile" in note]


def test_files_that_a_recovery_cuts_off_are_the_end(root: Path) -> None:
    newest = max((root / "commitlog").iterdir())
    with store(root, Env()) as opened:
        before = [message for message in opened.scan() if message.physical_offset < int(newest.name)]
    with store(root, TrimmingEnv(newest)) as opened:
        scan = opened.scan()
        assert [*scan] == before
    assert scan.trimmed == [str(newest)]
    assert scan.end is not None
    assert scan.end.is_clean


def test_a_file_that_is_missing_in_the_middle_is_an_error(root: Path) -> None:
    middle, *_ = sorted((root / "commitlog").iterdir())[1:]
    behind = middle.with_name(f"{int(middle.name) + 5 * FIRST:020d}")
    behind.write_bytes(bytes(FIRST))
    with store(root, TrimmingEnv(middle)) as opened, pytest.raises(VanishedError, match=middle.name):
        [*opened.scan()]


def test_a_file_that_is_removed_while_it_is_listed_is_left_out(root: Path) -> None:
    class Listing(Env):
        def size_bytes(self, path: str) -> int:
            oldest(root).unlink(missing_ok=True)
            return super().size_bytes(path)

    found = list_offset_files(Listing(), str(root / "commitlog"))
    assert min(file.start_offset for file in found.files) == FIRST
    assert not found.unusable


def verify_it(root: Path, output: Path, env: Env) -> None:
    assert [str(finding) for finding in verify(str(root), SMALL, env=env).findings] == []


def look_at_it(root: Path, output: Path, env: Env) -> None:
    assert overview(str(root), SMALL, env=env).problems == []


def rebuild_it(root: Path, output: Path, env: Env) -> None:
    found = detect(str(root))
    assert format_of(found).rebuild(found, {}, str(output), in_place=False, env=env).run(None).losses == []


def recover_it(root: Path, output: Path, env: Env) -> None:
    found = detect(str(root))
    report: Any = format_of(found).recover(found, {}, str(output), in_place=False, env=env).run(None)
    assert [each for each in report.skipped if each.is_loss] == []


def query_it(root: Path, output: Path, env: Env) -> None:
    with logdex.open(root, env=env) as opened:
        assert isinstance(opened, StoreSnapshot)
        result = opened.query_message("Kept", "key")
        kept = [each for each in opened.scan() if each.topic == b"Kept"]
    assert (len(result.messages), result.complete) == (len(kept), True)


@pytest.mark.parametrize("has_messages", [True, False], ids=["with messages", "expired"])
@pytest.mark.parametrize("removed", ["Gone", "Gone/0", f"Gone/0/{0:020d}"])
@pytest.mark.parametrize("act", [verify_it, look_at_it, rebuild_it, recover_it, query_it])
def test_a_topic_is_deleted_before_any_operation(
    act: Callable[[Path, Path, Env], None], removed: str, has_messages: bool, tmp_path: Path
) -> None:
    """The broker has taken it out of topics.json, and removes its ConsumeQueue, step by step."""
    gone = [message(number, topic=b"Gone") for number in range(12)]
    live = [message(number, keys="key", topic=b"Kept") for number in range(40)]
    kept = build(tmp_path / "kept", [*gone, *live])
    if not has_messages:
        oldest(kept).unlink()
    (kept / "abort").touch()
    (kept / "config").mkdir()
    (kept / "config" / "topics.json").write_text('{"topicConfigTable":{"Kept":{"topicName":"Kept"}}}')
    root, output = tmp_path / "store", tmp_path / "output"

    def runs_with(number: int) -> bool:
        shutil.copytree(kept, root)
        path = root / "consumequeue" / removed
        env = At(number, partial(shutil.rmtree, path) if path.is_dir() else path.unlink)
        act(root, output, env)
        shutil.rmtree(root)
        shutil.rmtree(output, ignore_errors=True)
        return env.left > 0

    assert runs_with(1 << 30)
    last = next(number for number in count(50, 50) if runs_with(number))
    for number in some(range(1, last, 3), 20):
        runs_with(number)
