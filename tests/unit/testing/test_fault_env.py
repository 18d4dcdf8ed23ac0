"""FaultEnv: what it refuses, what is dead after a kill, and what a power cut can and cannot
take."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.errors import StorageError
from logdex.io.env import Env
from logdex.testing import CHANGES, Fault, FaultEnv, Killed
from tests.directories import contents

SEEDS = range(60)


def survivors(env: FaultEnv, tmp_path: Path) -> list[dict[str, bytes]]:
    """Files and contents after power cuts with all the seeds."""
    found = []
    for seed in SEEDS:
        target = tmp_path / f"left-{seed}"
        env.survivor(str(target), seed)
        found.append(contents(target))
    return found


def write(env: Env, path: str, data: bytes, *, sync: bool) -> None:
    with env.open_write(path) as file:
        file.write_at(0, data)
        if sync:
            file.sync()


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "old").write_bytes(b"old")
    return str(tmp_path / "root")


def test_refuses_the_nth_operation_of_its_kinds_once(root: str) -> None:
    env = FaultEnv(root, Fault(2, errno.EIO, frozenset({"exists"})))
    assert env.exists(f"{root}/old")
    assert env.is_file(f"{root}/old")
    with pytest.raises(StorageError, match="old: input/output error"):
        env.exists(f"{root}/old")
    assert env.exists(f"{root}/old")
    assert (env.hits, env.count(), env.count(frozenset({"exists"})), env.count(CHANGES)) == (1, 4, 3, 0)


def test_lasting_faults_go_on(root: str) -> None:
    env = FaultEnv(root, Fault(2, errno.ENOSPC, frozenset({"write_at"}), lasting=True))
    with env.open_write(f"{root}/new") as file:
        file.write_at(0, b"1")
        for _ in range(3):
            with pytest.raises(StorageError, match="free some space"):
                file.write_at(1, b"2")
    assert env.hits == 3


def test_dead_after_a_kill_until_released(root: str) -> None:
    env = FaultEnv(root, Fault(3))
    file = env.open_write(f"{root}/new")
    file.write_at(0, b"kept")
    with pytest.raises(Killed):
        file.write_at(4, b"lost")
    actions: list[Callable[[], object]] = [file.sync, lambda: env.remove(f"{root}/old"), lambda: env.exists(root)]
    for action in actions:
        with pytest.raises(Killed):
            action()
    assert env.open_paths == [f"{root}/new"]
    env.release()
    assert env.open_paths == []
    assert Path(root, "new").read_bytes() == b"kept"
    assert Path(root, "old").exists()


def test_a_kill_leaves_its_lock_to_the_next(root: str) -> None:
    env = FaultEnv(root, Fault(4))
    assert env.lock_file(f"{root}/lock") is not None
    with pytest.raises(Killed):
        env.list_dir(root)
    assert Env().lock_file(f"{root}/lock") is None
    env.release()
    again = Env().lock_file(f"{root}/lock")
    assert again is not None
    again.close()


def test_what_was_synced_lasts(root: str, tmp_path: Path) -> None:
    env = FaultEnv(root)
    write(env, f"{root}/new", b"n" * 10_000, sync=True)
    env.rename(f"{root}/old", f"{root}/older")
    env.sync_dir(root)
    assert survivors(env, tmp_path) == [{"new": b"n" * 10_000, "older": b"old"}] * len(SEEDS)


def test_contents_without_sync_are_lost_by_pages(root: str, tmp_path: Path) -> None:
    Path(root, "old").write_bytes(b"o" * 5_000)
    env = FaultEnv(root)
    with env.open_write(f"{root}/old") as file, file.map(5_000) as mapped:
        file.sync()
        mapped.array[:] = ord("n")
        mapped.close()
        file.truncate(10_000)
    found = {left["old"] for left in survivors(env, tmp_path)}
    assert {len(data) for data in found} == {5_000, 10_000}
    assert {data[:1] for data in found} == {b"o", b"n"} == {data[4999:5000] for data in found}
    assert any(len(set(data[:5_000])) == 2 for data in found)
    assert all(len(set(data[:512])) == 1 and not any(data[5_000:]) for data in found)


def test_contents_between_syncs_may_be_what_is_left(root: str, tmp_path: Path) -> None:
    env = FaultEnv(root)
    with env.open_write(f"{root}/old") as file:
        file.write_at(3, b"er")
        file.truncate(2)
        file.write_at(2, b"d")
        assert {each["old"] for each in survivors(env, tmp_path)} >= {b"old", b"older", b"ol"}
        file.write_at(0, b"new")
        file.sync()
    (tmp_path / "synced").mkdir()
    assert {each["old"] for each in survivors(env, tmp_path / "synced")} == {b"new"}


def test_another_process_goes_on_where_one_was_killed(root: str, tmp_path: Path) -> None:
    env = FaultEnv(root, Fault(1, kinds=frozenset({"sync"})))
    with pytest.raises(Killed):
        write(env, f"{root}/new", b"1", sync=True)
    env.restart(Fault(2, errno.EIO, frozenset({"write_at"})))
    assert env.open_paths == []
    write(env, f"{root}/other", b"2", sync=True)
    with pytest.raises(StorageError):
        write(env, f"{root}/other", b"3", sync=True)
    env.sync_dir(root)
    assert {tuple(sorted(each.items())) for each in survivors(env, tmp_path)} == {
        (("new", content), ("old", b"old"), ("other", b"2")) for content in (b"", b"1", b"\0")
    }


def test_a_synced_file_may_lose_its_name(root: str, tmp_path: Path) -> None:
    env = FaultEnv(root)
    env.make_dirs(f"{root}/a/b")
    write(env, f"{root}/a/b/new", b"new", sync=True)
    env.sync_dir(f"{root}/a/b")
    found = [left.get("a/b/new") for left in survivors(env, tmp_path)]
    assert set(found) == {None, b"new"}
    env.sync_dir(f"{root}/a")
    env.sync_dir(root)
    assert env.count(frozenset({"make_dirs"})) == 2


def test_renames_are_atomic_and_in_order_for_one_name(root: str, tmp_path: Path) -> None:
    env = FaultEnv(root)
    write(env, f"{root}/new", b"new", sync=True)
    env.sync_dir(root)
    env.rename(f"{root}/old", f"{root}/kept")
    env.rename(f"{root}/new", f"{root}/old")
    found = survivors(env, tmp_path)
    assert {tuple(sorted(left.items())) for left in found} == {
        (("new", b"new"), ("old", b"old")),
        (("kept", b"old"), ("new", b"new")),
        (("kept", b"old"), ("old", b"new")),
    }


def test_what_a_rename_replaces_or_a_removal_takes_can_come_back(root: str, tmp_path: Path) -> None:
    Path(root, "removed").write_bytes(b"removed")
    env = FaultEnv(root)
    write(env, f"{root}/new", b"new", sync=True)
    env.sync_dir(root)
    env.rename(f"{root}/new", f"{root}/old")
    env.remove(f"{root}/removed")
    found = survivors(env, tmp_path)
    assert {(left["old"], left.get("new")) for left in found} == {(b"new", None), (b"old", b"new")}
    assert {left.get("removed") for left in found} == {None, b"removed"}


def test_a_directory_moves_with_what_is_in_it(root: str, tmp_path: Path) -> None:
    env = FaultEnv(root)
    env.make_dirs(f"{root}/staging/part")
    write(env, f"{root}/staging/part/file", b"data", sync=True)
    env.sync_dir(f"{root}/staging/part")
    env.sync_dir(f"{root}/staging")
    env.rename(f"{root}/staging/part", f"{root}/part")
    env.sync_dir(root)
    env.remove_tree(f"{root}/staging")
    assert {left["part/file"] for left in survivors(env, tmp_path)} == {b"data"}
    assert not Path(root, "staging").exists()


def test_a_tree_is_removed_name_by_name(root: str) -> None:
    for name in ("a", "b"):
        Path(root, "tree", name).mkdir(parents=True)
        Path(root, "tree", name, "file").touch()
    env = FaultEnv(root, Fault(2, kinds=frozenset({"remove"})))
    with pytest.raises(Killed):
        env.remove_tree(f"{root}/tree")
    assert [path.name for path in Path(root, "tree").iterdir()] == ["b"]
