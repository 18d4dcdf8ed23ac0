"""A sector of a CommitLog that the disk cannot read: readers say where, and rebuild and verify go
on."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from logdex.errors import UnreadableError
from logdex.io.env import Env
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.verify import verify
from logdex.testing import BadSectorsEnv
from tests.hostile.cutting import until_error
from tests.hostile.rocketmq.cut_readers import CONFIG, MESSAGES, make, store

PAGE = 4096
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


def test_a_rebuild_ends_before_it_and_reports_it(root: Path, tmp_path: Path) -> None:
    path, env = bad_env(root)
    report = rebuild(str(root), str(tmp_path / "out"), CONFIG, sync=False, env=env)
    assert report.messages == sum(map(before_it, sound(root)))
    range_ = f"bytes {2 * PAGE} to {3 * PAGE} cannot be read"
    assert any(range_ in loss and str(path) in loss for loss in report.losses), report.losses
    entries = set()
    for queue in (tmp_path / "out" / "consumequeue").glob("*/*/0*"):
        entries |= {physical for physical, size, _ in struct.iter_unpack(">qiq", queue.read_bytes()) if size}
    assert entries == {message.physical_offset for message in sound(root) if before_it(message)}


def test_verify_finds_it_and_goes_on(root: Path) -> None:
    path, env = bad_env(root)
    report = verify(str(root), CONFIG, env=env)
    found = [finding for finding in report.findings if finding.check == "unreadable"]
    assert [finding.path for finding in found] == [str(path)]
    lost = sum(message.physical_offset < FILE + 3 * PAGE and not before_it(message) for message in sound(root))
    assert report.messages == MESSAGES - lost
