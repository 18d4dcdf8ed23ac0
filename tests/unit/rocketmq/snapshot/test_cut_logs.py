"""A log that a broker cuts when it recovers, and then goes on with, while its end is found and
while it is scanned: neither ends with damage."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from logdex.errors import CorruptError, StorageError
from logdex.io.env import Env
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.commit_log.log_end import EndKind, LogEnd
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.snapshot.read_mark import ReadMark
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.testing import Fault, FaultEnv
from tests.beside import At, become
from tests.unit.rocketmq.small_stores import CONFIG, CUT, MESSAGES, REGROWN, build, numbers


def found_end(root: Path, env: Env) -> LogEnd:
    with StoreSnapshot(root, config=CONFIG, env=env) as snapshot:
        return snapshot.valid_end


def scanned_end(root: Path, env: Env) -> LogEnd:
    with StoreSnapshot(root, config=CONFIG, env=env) as snapshot:
        scan = snapshot.scan()
        found = numbers(scan)
    assert found == list(range(len(found)))
    assert len(found) >= len(CUT)
    assert scan.end is not None
    if scan.end.kind is EndKind.CUT:
        return replace(scan.end, kind=EndKind.ZEROS)  # which is right beside a cut
    return scan.end


@pytest.mark.parametrize(
    ("look", "messages"), [(found_end, CUT), (found_end, REGROWN), (scanned_end, CUT)], ids=["cut", "regrown", "scan"]
)
def test_the_log_is_cut_before_any_operation(
    tmp_path: Path, look: Callable[[Path, Env], LogEnd], messages: list[StoredMessage]
) -> None:
    before, after = build(tmp_path / "before", MESSAGES), build(tmp_path / "after", messages)
    still = At(0, lambda: None)
    assert look(before, still).offset == 5441
    for number in range(1, -still.left + 1):
        root = Path(shutil.copytree(before, tmp_path / "root"))
        assert look(root, At(number, partial(become, root, after))).is_clean, number
        shutil.rmtree(root)


@pytest.mark.parametrize("limit", [None, len(MESSAGES) + len(REGROWN)])
def test_a_scan_of_two_logs_says_so(tmp_path: Path, limit: int | None) -> None:
    before, after = build(tmp_path / "before", MESSAGES), build(tmp_path / "after", REGROWN)
    bodies, kinds = [[message.body for message in log] for log in (MESSAGES, REGROWN)], set[EndKind]()
    for number in count(1):
        root = Path(shutil.copytree(before, tmp_path / "root"))
        env = At(number, partial(become, root, after))
        with StoreSnapshot(root, config=CONFIG, env=env) as snapshot:
            scan = snapshot.scan(limit=limit)
            found = [message.body for message in scan]
        assert scan.end is not None
        assert scan.end.kind is not EndKind.CORRUPT, number
        kinds.add(scan.end.kind)
        assert not scan.end.is_clean or any(found == log[: len(found)] for log in bodies), number
        assert len(found) >= len(CUT)
        shutil.rmtree(root)
        if env.left > 0:
            break
    assert EndKind.CUT in kinds


def test_a_scan_that_has_read_all_does_not_fail(tmp_path: Path) -> None:
    """It looks at the log once more at its end, and the disk may refuse that."""
    root, given = build(tmp_path / "store", MESSAGES), [0]
    for number in count(1):
        env, found = FaultEnv(str(tmp_path), Fault(number, errno.EIO, lasting=True)), list[StoredMessage]()
        with suppress(StorageError), StoreSnapshot(root, config=CONFIG, env=env) as snapshot:
            for message in snapshot.scan():
                found.append(message)
            given.append(len(found))
        assert len(found) < len(MESSAGES) or given[-1] == len(MESSAGES), number
        if not env.hits:
            break
    assert given.count(len(MESSAGES)) > 2


def test_a_file_that_expires_is_no_cut(tmp_path: Path) -> None:
    """A broker that has written on removes the file of the last message that was known."""
    root = build(tmp_path / "store", REGROWN)
    first, *_ = sorted((root / "commitlog").iterdir())
    with CommitLog.of_config(root, CONFIG) as log:
        mark = ReadMark.at(log, 0)
        assert mark is not None
        log.close()
        first.unlink()
        assert mark.is_in(log)


def test_a_message_is_looked_up_again(tmp_path: Path) -> None:
    """A place behind the cut has another message, is in the middle of one, or is behind the end."""
    before, after = build(tmp_path / "before", MESSAGES), build(tmp_path / "after", REGROWN)
    with StoreSnapshot(before, config=CONFIG) as snapshot:
        places = [offset for offset, _ in snapshot.scan().items()][len(CUT) - 1 :: 3]
    with StoreSnapshot(after, config=CONFIG) as snapshot:
        now = {offset for offset, _ in snapshot.scan().items()}
    assert places[0] in now
    assert not now.issuperset(places)
    for place in places:
        for number in count(1):
            root = Path(shutil.copytree(before, tmp_path / "root"))
            env, is_whole = At(number, partial(become, root, after)), True
            with StoreSnapshot(root, config=CONFIG, env=env) as snapshot:
                try:
                    is_whole = snapshot.look_message_by_offset(place).physical_offset == place
                except CorruptError:  # which is right for the log after
                    assert place not in now
                    assert snapshot.valid_end_offset == log_end(after)
            assert is_whole
            shutil.rmtree(root)
            if env.left > 0:
                break


def log_end(root: Path) -> int:
    with StoreSnapshot(root, config=CONFIG) as snapshot:
        return snapshot.valid_end_offset
