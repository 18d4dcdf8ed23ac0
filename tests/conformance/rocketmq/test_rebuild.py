"""Rebuilt from the CommitLog alone, every ConsumeQueue file and IndexFile is the broker's, byte for
byte."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from tests.golden import rocketmq as golden

Files = dict[str, str]


def config_of(name: str) -> StoreConfig:
    """Sizes and version as the manifest states them."""
    manifest = golden.manifest(name)
    sizes = manifest["geometry"]
    return StoreConfig(
        mapped_file_size_commit_log=sizes["commitLogFileSize"],
        mapped_file_size_consume_queue=sizes["consumeQueueEntries"] * 20,
        max_hash_slot_num=sizes["hashSlots"],
        max_index_num=sizes["maxIndexNum"],
        dialect=Dialect.of(manifest["rocketmq"]),
    )


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def derived_files(root: Path) -> Files:
    """Path → SHA-256 of what is derived; IndexFiles under their place in the order of names, which
    are wall clock."""
    paths = sorted(
        path for folder in ("consumequeue", "index") for path in (root / folder).rglob("*") if path.is_file()
    )
    return by_place({path.relative_to(root).as_posix(): digest(path) for path in paths})


def by_place(files: Files) -> Files:
    indexes = sorted(path for path in files if path.startswith("index/"))
    queues = {path: sha for path, sha in files.items() if path.startswith("consumequeue/")}
    return queues | {f"index #{place}": files[path] for place, path in enumerate(indexes)}


def expected_files(name: str) -> Files:
    manifest = golden.manifest(name)
    listing = manifest["recovered"]["files"] if manifest["unclean"] else manifest["files"]
    return by_place({path: entry["sha256"] for path, entry in listing.items()})


@pytest.mark.parametrize("name", golden.derived_anew())
def test_rebuilt_files_are_the_brokers(name: str, golden_store: Callable[[str], Path], tmp_path: Path) -> None:
    report = rebuild(str(golden_store(name)), str(tmp_path), config_of(name), sync=False)
    files = derived_files(tmp_path)
    assert files == expected_files(name)
    assert (report.messages, report.files) == (len(golden.manifest(name)["messages"]), len(files))


@pytest.mark.parametrize("name", [name for name in golden.NAMES if golden.has_recovered(name)])
def test_queues_of_an_unclean_store_as_the_engine_recovers_them(
    name: str, golden_store: Callable[[str], Path], tmp_path: Path
) -> None:
    """Entry for entry: in the files the engine leaves stale bytes of entries that it cut."""
    rebuild(str(golden_store(name)), str(tmp_path), config_of(name), sync=False)
    file_size = config_of(name).consume_queue_file_size_bytes
    for topic, queue, offset, physical, length, tags_code, _ in golden.manifest(name)["entries"]:
        files = {int(path.name): path for path in (tmp_path / "consumequeue" / topic / str(queue)).iterdir()}
        start, inside = divmod(offset * 20, file_size)
        path = files.get(start * file_size)
        if path is None:
            assert offset * 20 < min(files)  # the log no longer holds it: the engine knew it from before
            continue
        entry = path.read_bytes()[inside : inside + 20]
        ours = (int.from_bytes(entry[:8]), int.from_bytes(entry[8:12]), int.from_bytes(entry[12:], signed=True))
        assert ours in ((physical, length, tags_code), (0, 0x7FFFFFFF, 0)), (topic, queue, offset)


@pytest.mark.parametrize("window", [1, 7, 1000])
def test_the_size_of_windows_makes_no_difference(
    window: int, golden_store: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "tiny-5.5.0"
    from logdex.rocketmq.rebuild import local as module
    from logdex.rocketmq.scan.scanner import Scanner

    class Small(Scanner):
        def __init__(self, config: StoreConfig, **options: object) -> None:
            super().__init__(config, window_messages=window, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "Scanner", Small)
    module.rebuild(str(golden_store(name)), str(tmp_path), config_of(name), sync=False)
    assert derived_files(tmp_path) == expected_files(name)
