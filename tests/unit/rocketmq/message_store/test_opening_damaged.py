"""Opening a store whose log is damaged where no power cut damages it."""

from __future__ import annotations

import errno
import shutil
from itertools import count
from pathlib import Path

import pytest

import logdex
from logdex.errors import CorruptError, StorageError
from logdex.testing import Fault, FaultEnv
from tests.directories import contents
from tests.unit.rocketmq.message_store.open_stores import crash, open_store
from tests.unit.rocketmq.message_store.test_opening import COUNT, fill, make


@pytest.mark.parametrize("ends", ["closed", "killed"])
def test_damage_before_the_last_file_is_not_cut(ends: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    make(root, ends=ends)
    (root / "checkpoint").unlink()
    first = root / "commitlog" / f"{0:020d}"
    first.write_bytes(first.read_bytes()[:1000] + bytes(500) + first.read_bytes()[1500:])
    before = contents(root)
    with pytest.raises(CorruptError, match="logdex recover"):
        open_store(root)
    assert contents(root) == before


def test_damage_within_a_closed_log_costs_no_key_behind_it(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    with open_store(whole, mapped_file_size_commit_log=1 << 20) as store:
        fill(store)
        begin, end = (store.query_message("orders", f"k{number}").messages[0].physical_offset for number in (40, 41))
    refused = 0
    for place in range(begin, end, 5):
        root = tmp_path / f"at-{place}"
        shutil.copytree(whole, root)
        [log] = (root / "commitlog").iterdir()
        data = bytearray(log.read_bytes())
        data[place] ^= 0x5A
        log.write_bytes(data)
        before = contents(root)
        try:
            open_store(root, mapped_file_size_commit_log=1 << 20).close()
        except CorruptError:
            refused += 1
            is_as_before = contents(root) == before
            assert is_as_before
        with logdex.open_store(root) as snapshot:
            found = [snapshot.query_message("orders", f"k{number}") for number in range(COUNT)]
            lacking = {number for number, each in enumerate(found) if not each.messages and each.complete}
            assert lacking <= {40}
        shutil.rmtree(root)
    assert refused


def test_damage_before_what_was_flushed_is_not_cut(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_store(root, mapped_file_size_commit_log=1 << 20) as store:
        fill(store)
        store.flush()
        damaged = store.query_message("orders", "k40").messages[0]
        crash(store)
    [log] = [path for path in (root / "commitlog").iterdir() if any(path.read_bytes())]
    data = bytearray(log.read_bytes())
    data[damaged.physical_offset + damaged.size_bytes // 2] ^= 1
    log.write_bytes(data)
    before = contents(root)
    with pytest.raises(CorruptError, match="goes on at byte"):
        open_store(root, mapped_file_size_commit_log=1 << 20)
    assert contents(root) == before
    (root / "checkpoint").unlink()  # nothing says what was on disk
    with open_store(root, mapped_file_size_commit_log=1 << 20) as store:
        assert store.max_phy_offset == damaged.physical_offset


def test_what_cannot_be_read_once_is_not_the_end_of_the_log(tmp_path: Path) -> None:
    """After a kill, the store refuses to open and changes no message, or goes on where the log
    ends."""

    def messages(root: Path) -> dict[str, bytes]:
        return {name: data for name, data in contents(root / "commitlog").items() if any(data)}

    kept = tmp_path / "kept"
    store = open_store(kept)
    fill(store)
    end = store.max_phy_offset
    crash(store)
    (kept / "commitlog" / f"{(end // 4096 + 1) * 4096:020d}").write_bytes(bytes(4096))
    refused = 0
    for at in count(1):
        root = tmp_path / str(at)
        shutil.copytree(kept, root)
        env = FaultEnv(str(root), Fault(at, errno.EIO, frozenset({"read_at", "map_read"})))
        try:
            store = open_store(root, env=env)
        except (CorruptError, StorageError):
            refused += 1
            assert messages(root) == messages(kept)
        else:
            assert store.max_phy_offset == end
            crash(store)
        if not env.hits:
            break
        shutil.rmtree(root)
    assert 0 < refused < at
