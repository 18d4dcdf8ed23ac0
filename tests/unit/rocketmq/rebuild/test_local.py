"""The rebuild in one process: where it may write, what it reports, and the broker's lock."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logdex.errors import EnvironmentProblem, MissingFileError, UsageError
from logdex.io.env import Env
from logdex.rocketmq.index_file.writer import IndexTarget, derive_index_files
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.rebuild.store_writer import index_window
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.settings.store_config import StoreConfig
from tests.directories import contents
from tests.unit.io.locks import held_elsewhere
from tests.unit.rocketmq.small_stores import CONFIG, MESSAGES, build, opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build(tmp_path / "store", MESSAGES)


def test_the_same_again_and_nothing_in_the_store(root: Path, tmp_path: Path) -> None:
    before = contents(root)
    said: list[tuple[int, int]] = []
    report = rebuild(str(root), str(tmp_path / "out"), CONFIG, progress=lambda *now: said.append(now))
    derived = {name: data for name, data in before.items() if name.startswith(("consumequeue", "index"))}
    assert contents(tmp_path / "out") == derived
    assert contents(root) == before
    assert (report.messages, report.queue_entries, report.files) == (40, 40, len(derived))
    assert (report.lossy, report.losses, report.assumed, report.kept) == (False, [], [], {})
    assert said[-1] == (40, report.bytes)


@pytest.mark.parametrize("below", ["", "/", "/rebuilt", "/commitlog/.."])
def test_no_output_in_the_store(root: Path, below: str) -> None:
    before = contents(root)
    with pytest.raises(UsageError, match="lies in"):
        rebuild(str(root), f"{root}{below}", CONFIG)
    with pytest.raises(UsageError, match="--in-place"):
        rebuild(str(root), f"{root}-elsewhere", CONFIG, in_place=True)
    assert contents(root) == before


@pytest.mark.parametrize("name", ["index", "consumequeue", ".logdex-staging-x"])
def test_the_store_is_never_what_is_replaced(root: Path, tmp_path: Path, name: str) -> None:
    store = tmp_path / "parent" / name
    store.parent.mkdir()
    root.rename(store)
    before = contents(store)
    for output in (store.parent, store.parent.parent / "link"):
        if output.name == "link":
            output.symlink_to(store.parent)
        with pytest.raises(UsageError, match="would be replaced"):
            rebuild(str(store), str(output), CONFIG)
    assert contents(store) == before


def test_an_empty_last_file_adds_nothing(root: Path, tmp_path: Path) -> None:
    """Nothing tells of the messages that it had."""
    whole = rebuild(str(root), str(tmp_path / "one"), CONFIG)
    files = sorted((root / "commitlog").iterdir())
    assert files[-1].read_bytes().strip(b"\0")
    files[-1].write_bytes(b"")
    for name in ("consumequeue", "index"):
        shutil.rmtree(root / name)
    report = rebuild(str(root), str(tmp_path / "two"), CONFIG)
    assert (report.lossy, report.end, report.end_offset) == (False, "end of files", int(files[-1].name))
    assert report.bytes < whole.bytes


def test_a_running_broker_keeps_its_store(root: Path) -> None:
    (root / "lock").write_bytes(b"lock")
    with held_elsewhere(root / "lock", size_bytes=1), pytest.raises(UsageError, match="a broker runs on this store"):
        rebuild(str(root), str(root), CONFIG, in_place=True)
    report = rebuild(str(root), str(root), CONFIG, in_place=True)
    assert sorted(report.kept) == ["consumequeue", "index"]


def test_no_log_and_no_space(root: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        rebuild(str(tmp_path / "nothing"), str(tmp_path / "out"), CONFIG)

    class Full(Env):
        def free_bytes(self, path: str) -> int:
            return 10

    with pytest.raises(EnvironmentProblem, match="10 are free"):
        rebuild(str(root), str(tmp_path / "out"), CONFIG, env=Full())
    assert not (tmp_path / "out").exists()


def test_a_torn_end_is_a_loss_named_once(root: Path, tmp_path: Path) -> None:
    path = max((root / "commitlog").iterdir(), key=lambda file: (file.read_bytes().strip(b"\0") != b"", file.name))
    data = path.read_bytes()
    end = len(data.rstrip(b"\0"))
    path.write_bytes(data[: end - 45].ljust(len(data), b"\0"))
    report = rebuild(str(root), str(tmp_path / "out"), CONFIG)
    assert (report.messages, report.end, report.lossy) == (39, "torn", True)
    (loss,) = report.losses
    assert loss.count(path.name) == 1
    assert str(report.end_offset) in loss


def test_derive_index_files_is_what_rebuild_writes(root: Path, tmp_path: Path) -> None:
    def target(first_store_timestamp_ms: int) -> IndexTarget:
        return IndexTarget(f"{tmp_path}/{first_store_timestamp_ms}", CONFIG)

    with opened(root) as store:
        scanner = Scanner(StoreConfig(), window_messages=7)
        headers = derive_index_files(map(index_window, scanner.scan(store.commit_log)), CONFIG, target)
    files = sorted(path for path in tmp_path.iterdir() if path.is_file())
    assert [path.read_bytes() for path in files] == [path.read_bytes() for path in sorted((root / "index").iterdir())]
    assert len(headers) == len(files) > 1
