"""A sector of a CommitLog that the disk cannot read: readers say where, and rebuild and verify go
on."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from random import Random

import pytest

from logdex.errors import UnreadableError
from logdex.io.env import Env
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.rebuild.parts import PartScan, WholeLog, join_parts, plan_parts, scan_part
from logdex.rocketmq.rebuild.source import behind_unreadable
from logdex.rocketmq.rebuild.stage import StageReader
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.verify import verify
from logdex.testing import BadSectorsEnv
from tests.examples import cases
from tests.hostile.cutting import until_error
from tests.hostile.rocketmq.cut_readers import CONFIG, MESSAGES, make, store

PAGE = 4096
PRE_BLANK = 0, 0x7FFFFFFF, 0
FILE = CONFIG.mapped_file_size_commit_log


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("bad") / "store")


def bad_env(root: Path) -> tuple[Path, BadSectorsEnv]:
    path = root / "commitlog" / f"{FILE:020d}"
    return path, BadSectorsEnv({str(path): [(2 * PAGE, 2 * PAGE + 512)]})


def sound(root: Path) -> list[StoredMessage]:
    with store(root, Env()) as opened:
        return [*opened.scan()]


def before_it(message: StoredMessage) -> bool:
    return message.physical_offset + message.size_bytes <= FILE + 2 * PAGE


def test_a_scan_yields_what_lies_before_and_says_where(root: Path) -> None:
    path, env = bad_env(root)
    with store(root, env) as opened:
        rows, error = until_error(opened.scan())
    assert (error.path, error.position, error.end_position) == (str(path), 2 * PAGE, 3 * PAGE)
    assert rows == [message for message in sound(root) if before_it(message)]


def test_arrow_batches_end_before_it(root: Path) -> None:
    _, env = bad_env(root)
    with store(root, env) as opened:
        batches = opened.scan().arrow_reader()
        offsets, _ = until_error(offset for batch in batches for offset in batch.column("physical_offset").to_pylist())
    assert offsets == [message.physical_offset for message in sound(root) if before_it(message)]


def test_other_messages_are_read(root: Path) -> None:
    _, env = bad_env(root)
    messages = sound(root)
    lost = next(message for message in messages if not before_it(message))
    with store(root, env) as opened:
        assert opened.look_message_by_offset(messages[0].physical_offset) == messages[0]
        assert opened.look_message_by_offset(messages[-1].physical_offset) == messages[-1]
        with pytest.raises(UnreadableError):
            opened.look_message_by_offset(lost.physical_offset)


SECTORS: dict[str, list[tuple[int, int, int]]] = {
    "one": [(1, 2 * PAGE, 2 * PAGE + 512)],
    "three near each other": [(1, 2 * PAGE, 2 * PAGE + 1), (1, 4 * PAGE, 4 * PAGE + 1), (1, 6 * PAGE, 9 * PAGE)],
    "in both files": [(0, 5 * PAGE, 5 * PAGE + 1), (1, 9 * PAGE, 9 * PAGE + 1)],
    "the beginning of a file": [(1, 0, 512)],
    "the end of a file, with its filler": [(0, FILE - 512, FILE)],
    "the second half of a file": [(0, FILE // 2, FILE)],
    "a whole file": [(0, 0, FILE)],
}
"""Sectors that cannot be read: (number of the file, first byte, byte behind)."""


def some_sectors(seed: int) -> list[tuple[int, int, int]]:
    random = Random(seed)
    found = {(random.randrange(2), random.randrange(24) * PAGE) for _ in range(random.randint(1, 8))}
    return [(number, at, at + random.choice([1, 512, PAGE, 3 * PAGE])) for number, at in sorted(found)]


def unreadable(root: Path, sectors: list[tuple[int, int, int]]) -> tuple[BadSectorsEnv, set[int]]:
    """The environment of these sectors, and the physical offsets of the messages in their pages."""
    ranges: dict[str, list[tuple[int, int]]] = {}
    lost = set()
    for number, start, end in sectors:
        ranges.setdefault(str(root / "commitlog" / f"{number * FILE:020d}"), []).append((start, end))
        first, behind = number * FILE + start // PAGE * PAGE, number * FILE + -(-end // PAGE) * PAGE
        lost |= {
            each.physical_offset
            for each in sound(root)
            if each.physical_offset < behind and first < each.physical_offset + each.size_bytes
        }
    return BadSectorsEnv(ranges), lost


def entries_of(queue: Path) -> list[tuple[int, int, int]]:
    return [*struct.iter_unpack(">qiq", b"".join(path.read_bytes() for path in sorted(queue.iterdir())))]


@pytest.mark.parametrize("name", SECTORS)
def test_a_rebuild_goes_on_behind_it_and_reports_it(name: str, root: Path, tmp_path: Path) -> None:
    sectors = SECTORS[name]
    env, lost = unreadable(root, sectors)
    output = tmp_path / "out"
    report = rebuild(str(root), str(output), CONFIG, sync=False, env=env)
    assert report.lossy
    assert report.messages == MESSAGES - len(lost)
    assert report.end == "zeros"
    told = [loss for loss in report.losses if " are left out: " in loss and "cannot be read" in loss]
    assert len(told) == len(report.losses) == len(sectors), report.losses
    for queue in sorted((root / "consumequeue").glob("*/*")):
        wanted, found = entries_of(queue), entries_of(output / queue.relative_to(root))
        count = sum(1 for entry in wanted if entry[1])
        assert found[count:] == wanted[count:]  # zeros
        for at in reversed(range(count)):
            if wanted[at][0] not in lost:
                assert found[at] == wanted[at]
            else:  # a gap repeats the entry behind it; before the first file that can be read is no gap
                assert found[at] == (PRE_BLANK if name == "a whole file" else found[at + 1])


@pytest.mark.parametrize("name", SECTORS)
def test_verify_of_what_was_rebuilt_finds_the_sectors_alone(name: str, root: Path, tmp_path: Path) -> None:
    store_root = tmp_path / "store"
    shutil.copytree(root, store_root)
    env, _ = unreadable(store_root, SECTORS[name])
    rebuild(str(store_root), str(store_root), CONFIG, in_place=True, sync=False, env=env)
    assert {finding.check for finding in verify(str(store_root), CONFIG, env=env).findings} == {"unreadable"}


@pytest.mark.parametrize("name", ["one", "three near each other", "in both files", "the second half of a file"])
def test_queries_after_such_a_rebuild_are_not_called_complete(name: str, root: Path, tmp_path: Path) -> None:
    env, lost = unreadable(root, SECTORS[name])
    rebuild(str(root), str(tmp_path), CONFIG, sync=False, env=env)
    shutil.copytree(root / "commitlog", tmp_path / "commitlog")
    with store(tmp_path, unreadable(tmp_path, SECTORS[name])[0]) as opened:
        for message in sound(root):
            found = opened.query_message(message.topic, message.keys[1])
            assert [each.physical_offset for each in found.messages] == [message.physical_offset] * (
                message.physical_offset not in lost
            )
            assert not found.complete
            assert all(any(begin <= at < end for begin, end in found.missing) for at in lost)


@pytest.mark.parametrize("seed", cases(range(200), 20))
def test_sectors_anywhere(seed: int, root: Path, tmp_path: Path) -> None:
    env, lost = unreadable(root, some_sectors(seed))
    report = rebuild(str(root), str(tmp_path), CONFIG, sync=False, env=env)
    kept = {each.physical_offset for each in sound(root)} - lost
    found = {entry[0] for queue in (tmp_path / "consumequeue").glob("*/*") for entry in entries_of(queue) if entry[1]}
    assert found - {0} == kept - {0}
    assert report.messages == len(kept)
    assert all("cannot be read" in loss for loss in report.losses), report.losses


@pytest.mark.parametrize("part_size", [3 * PAGE, 10 * PAGE, 1 << 20])
@pytest.mark.parametrize("sectors", SECTORS.values(), ids=SECTORS)
def test_parts_go_on_as_one_scan_does(
    sectors: list[tuple[int, int, int]], part_size: int, root: Path, tmp_path: Path
) -> None:
    env, _ = unreadable(root, sectors)
    with CommitLog.of_config(str(root), CONFIG, env=env) as log:
        behind = behind_unreadable(str(root), log, CONFIG, env)
        scanner = Scanner(CONFIG, behind=behind, env=env)
        positions = [at for window in scanner.scan(log) for at in window.columns.position[: window.count].tolist()]
        scans: list[PartScan] = []
        again = [part for task in plan_parts(log, part_size) for part in task]
        while again:
            for part in again:
                scans.append(scan_part(part, CONFIG, str(tmp_path / f"{len(scans)}"), behind=behind, env=env))
            whole = join_parts(log, scans)
            again = [] if isinstance(whole, WholeLog) else whole
    assert isinstance(whole, WholeLog)
    staged = []
    for scan in whole.scans:
        if scan.stage is not None:
            with StageReader(scan.stage, Env()) as reader:
                staged += [at for index in reader.index_windows(0) for at in index.physical_offset.tolist()]
    assert staged == positions
    assert (whole.end, whole.left_out) == (scanner.end, scanner.left_out)


def test_a_rebuild_of_a_log_alone_takes_what_is_proven(root: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    shutil.copytree(root / "commitlog", alone / "commitlog")
    env, lost = unreadable(alone, SECTORS["three near each other"])
    report = rebuild(str(alone), str(tmp_path / "out"), CONFIG, sync=False, env=env)
    sizes = {each.physical_offset: each.size_bytes for each in sound(root)}
    taken = set()
    for queue in (tmp_path / "out" / "consumequeue").glob("*/*"):
        taken |= {entry[0] for entry in entries_of(queue) if entry[1]}
    assert taken <= sizes.keys() - lost
    assert report.messages == len(taken)
    assert all(at in taken for at in sizes if at < FILE or at >= FILE + 9 * PAGE)


def test_verify_finds_it_and_goes_on(root: Path) -> None:
    path, env = bad_env(root)
    report = verify(str(root), CONFIG, env=env)
    found = [finding for finding in report.findings if finding.check == "unreadable"]
    assert [finding.path for finding in found] == [str(path)]
    lost = sum(message.physical_offset < FILE + 3 * PAGE and not before_it(message) for message in sound(root))
    assert report.messages == MESSAGES - lost
