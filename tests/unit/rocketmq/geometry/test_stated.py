"""What the caller states and the files contradict is said as such; what no store can have is
refused."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.errors import GeometryError, MissingFileError, UsageError
from logdex.rocketmq.geometry.index_geometry import IndexGeometry
from logdex.rocketmq.geometry.resolve import contradiction, resolve_config, resolve_in_any_case
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from tests.cli.helpers import run
from tests.directories import contents
from tests.examples import cases
from tests.golden import rocketmq as golden


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return golden.unpack("tiny-5.5.0", tmp_path)


def test_a_version_that_the_files_contradict(store: Path) -> None:
    config = resolve_config(str(store), rocketmq_version="4.9.7")
    assert [text.split(" in /")[0] for text in config.contradicted] == [
        "rocketmq-version 4.9.7: the IndexFile holds tags"
    ]
    assert config.assumed[-1].endswith("which contradicts it")
    assert contradiction(resolve_config(str(store), rocketmq_version="5.4.0")) is None
    result = run("verify", store, "--rocketmq-version", "4.9.7")
    assert "the files contradict what is stated: rocketmq-version 4.9.7" in result.stderr
    assert (result.exit_code, result.stdout.splitlines()[-1][:11]) == (0, "No findings")


def test_a_version_is_text(store: Path) -> None:
    version: Any = 5.5
    with pytest.raises(UsageError, match=r"rocketmq_version is 5.5 .give it as text: '5.5.0'"):
        logdex.open(store, rocketmq_version=version)


@pytest.mark.parametrize("version", ["3.2.6", "99.1", "3.9", "5.6.0", "6.0.0"])
def test_versions_whose_rules_are_not_known(version: str, store: Path) -> None:
    with pytest.raises(UsageError, match="are not known"):
        Dialect.of(version)
    result = run("verify", store, "--rocketmq-version", version)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "4.0 to 5.5" in result.stderr


@pytest.mark.parametrize("flag", ["max-hash-slot-num", "max-index-num", "mapped-file-size-commit-log"])
@pytest.mark.parametrize("value", [-1, 0, 1 << 62])
def test_sizes_that_no_store_can_have(flag: str, value: int, store: Path) -> None:
    for command in (["info"], ["verify"], ["rebuild", "--output", store.parent / "out"]):
        result = run(command[0], store, *command[1:], f"--{flag}={value}")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "must be from" in result.stderr


def test_sizes_that_the_files_contradict(store: Path) -> None:
    sizes = golden.manifest("tiny-5.5.0")["geometry"]
    for name, value in (
        ("mapped_file_size_commit_log", 2 * sizes["commitLogFileSize"]),
        ("mapped_file_size_commit_log", sizes["commitLogFileSize"] // 2 + 1),
        ("mapped_file_size_consume_queue", 20 * sizes["consumeQueueEntries"] - 20),
    ):
        with pytest.raises(UsageError, match=f"{value} is stated, but the files have"):
            resolve_config(str(store), **{name: value})


def test_a_stated_index_geometry_that_no_file_has(store: Path) -> None:
    sizes = golden.manifest("tiny-5.5.0")["geometry"]
    wrong = {"max_hash_slot_num": sizes["hashSlots"] + 1, "max_index_num": sizes["maxIndexNum"]}
    with pytest.raises(GeometryError, match="no IndexFile of"):
        resolve_config(str(store), **wrong)
    config, error = resolve_in_any_case(str(store), **wrong)
    assert (config.max_hash_slot_num, config.max_index_num) == (sizes["hashSlots"], sizes["maxIndexNum"])
    assert error is not None
    result = run("verify", store, *(f"--{name.replace('_', '-')}={value}" for name, value in wrong.items()))
    assert "no IndexFile of" in result.stderr
    assert result.stdout.splitlines()[-1].startswith("No findings")


@pytest.mark.parametrize("more", [5, -5, 500])
@pytest.mark.parametrize("names", [("max_hash_slot_num",), ("max_index_num",), ("max_hash_slot_num", "max_index_num")])
def test_a_stated_index_geometry_of_the_files_size_that_their_content_contradicts(
    more: int, names: tuple[str, ...], store: Path
) -> None:
    sizes = golden.manifest("tiny-5.5.0")["geometry"]
    right = {"max_hash_slot_num": sizes["hashSlots"], "max_index_num": sizes["maxIndexNum"]}
    wrong = {"max_hash_slot_num": sizes["hashSlots"] + more, "max_index_num": sizes["maxIndexNum"] - more // 5}
    for values in (right, {name: value for name, value in right.items() if name in names}):
        config, error = resolve_in_any_case(str(store), **values)
        assert error is None
    stated = {name: wrong[name] for name in names}
    with pytest.raises(GeometryError, match="are stated, but index: "):
        resolve_config(str(store), **stated)
    config, error = resolve_in_any_case(str(store), **stated)
    assert (config.max_hash_slot_num, config.max_index_num) == tuple(right.values())
    assert error is not None
    result = run("verify", store, *(f"--{name.replace('_', '-')}={value}" for name, value in stated.items()))
    assert "leave them out" in result.stderr
    assert result.stdout.splitlines()[-1].startswith("No findings")


def test_stated_sizes_hold_where_the_index_files_were_cut(store: Path, tmp_path: Path) -> None:
    sizes = golden.manifest("tiny-5.5.0")["geometry"]
    right = {"max_hash_slot_num": sizes["hashSlots"], "max_index_num": sizes["maxIndexNum"]}
    for path in (store / "index").iterdir():
        os.truncate(path, 40)
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in right.items()]
    refused = run("rebuild", store, "--output", tmp_path / "guessed")
    assert (refused.exit_code, "pass --max-hash-slot-num" in refused.stderr) == (2, True)
    for command in ("rebuild", "recover"):
        assert run(command, store, "--output", tmp_path / command, *flags).exit_code == 0
    assert {path.stat().st_size for path in (tmp_path / "rebuild" / "index").iterdir()} == {
        IndexGeometry(*right.values()).file_size_bytes
    }


@pytest.mark.needs_shared
@pytest.mark.parametrize(("zeroed", "more"), cases(itertools.product([0, 1, 2, 10], [5, 10, 25]), 12, first=10))
def test_first_entries_that_are_damaged_do_not_shift_the_geometry(
    zeroed: int, more: int, golden_copy: Callable[..., Path]
) -> None:
    """A broker's IndexFile of the default size, whose keys do not repeat: its links are all 0."""
    store = golden_copy("default-geometry")
    index = min((store / "index").iterdir())
    with index.open("r+b") as file:
        file.seek(40 + 4 * 5_000_000 + 20)
        file.write(bytes(20 * zeroed))
    right = {"max_hash_slot_num": 5_000_000, "max_index_num": 20_000_000}
    for stated in ({}, right):
        config = resolve_config(str(store), **stated)  # type: ignore[arg-type]
        assert (config.max_hash_slot_num, config.max_index_num) == (5_000_000, 20_000_000)
    with pytest.raises(GeometryError, match="are stated, but"):
        resolve_config(str(store), max_hash_slot_num=5_000_000 + more)


def conf(folder: Path, **properties: str) -> Path:
    path = folder / "broker.conf"
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


def test_a_commit_log_elsewhere(store: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "disk" / "log"
    elsewhere.parent.mkdir()
    with StoreSnapshot(str(store)) as opened:
        count = len(list(opened.scan()))
    shutil.move(store / "commitlog", elsewhere)
    for command in ("info", "cat", "verify"):
        result = run(command, store)
        assert result.exit_code == 2
        assert "storePathCommitLog" in result.stderr
    path = conf(tmp_path, storePathCommitLog=str(elsewhere))
    config = resolve_config(str(store), broker_conf=path)
    assert config.store_path_commit_log == str(elsewhere)
    assert verify(str(store), config).findings == []
    assert run("info", store, "--broker-conf", path).exit_code == 0
    *printed, _end = run("cat", store, "--broker-conf", path, "--json").stdout.splitlines()
    assert len(printed) == count
    assert run("rebuild", store, "--broker-conf", path, "--output", tmp_path / "out").exit_code == 0
    with StoreSnapshot(str(store), broker_conf=path) as opened:
        assert len(list(opened.scan())) == count
    path = conf(tmp_path, storePathCommitLog=str(tmp_path / "gone"))
    with pytest.raises(MissingFileError, match="in storePathCommitLog"):
        resolve_config(str(store), broker_conf=path)


def test_a_copied_store_has_its_log_where_the_broker_had_it_below_the_root(store: Path, tmp_path: Path) -> None:
    path = conf(tmp_path, storePathRootDir="/data/store", storePathCommitLog="/data/store/commitlog")
    config = resolve_config(str(store), broker_conf=path)
    assert config.store_path_commit_log is None
    shutil.move(store / "commitlog", store / "log")
    path = conf(tmp_path, storePathRootDir="/data/store", storePathCommitLog="/data/store/log/")
    assert resolve_config(str(store), broker_conf=path).store_path_commit_log == f"{store}/log"


def test_a_commit_log_in_several_store_paths(store: Path, tmp_path: Path) -> None:
    rows = run("cat", store, "--json").stdout
    rebuilt = tmp_path / "whole"
    assert run("rebuild", store, "--output", rebuilt).exit_code == 0
    disks = [tmp_path / f"disk{number}" for number in range(3)]
    for number, file in enumerate(sorted((store / "commitlog").iterdir())):
        disks[number % 3].mkdir(exist_ok=True)
        shutil.move(file, disks[number % 3])
    (store / "commitlog").rmdir()
    stated = ",".join(map(str, [*disks[:2], tmp_path / "never-used"]))
    path = conf(tmp_path, storePathCommitLog=stated, readOnlyCommitLogStorePaths=str(disks[2]))
    assert run("cat", store, "--broker-conf", path, "--json").stdout == rows
    config = resolve_config(str(store), broker_conf=path)
    assert verify(str(store), config).findings == []
    assert config.commit_log_directories == tuple(map(str, disks))
    assert any("never-used" in line for line in config.assumed)
    for command in ("rebuild", "recover"):
        output = tmp_path / command
        told = run(command, store, "--broker-conf", path, "--output", output)
        assert told.exit_code == 0, told
        for part in ("consumequeue", "index"):
            assert contents(output / part) == contents(rebuilt / part)
    assert run("cat", tmp_path / "recover", "--json").stdout == rows
    assert run("info", store, "--broker-conf", path).exit_code == 0
    assert run("put", store, "--broker-conf", path, "--topic", "T", "--body", "x").exit_code == 2
    first = min(file for disk in disks for file in disk.iterdir() if file.name == f"{0:020d}")
    first.unlink()  # by a broker's retention
    assert verify(str(store), config).findings == []


@pytest.mark.parametrize("offset", [5, 100])
def test_a_physical_offset_inside_a_message(offset: int, store: Path) -> None:
    with StoreSnapshot(str(store)) as opened:
        places = [at for at, _ in opened.scan().items()]
    following = min(at for at in places if at >= offset)
    result = run("cat", store, "--physical-offset", offset)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"no message begins at physical offset {offset}" in result.stderr
    assert f"the next one begins at {following}" in result.stderr
    assert run("cat", store, "--physical-offset", following).exit_code == 0
    assert run("cat", store, "--physical-offset", places[-1]).exit_code == 0
