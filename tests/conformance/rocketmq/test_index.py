"""IndexFiles of stores that real brokers wrote: derived byte for byte, and every query answered as
by the engine."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logdex.errors import CorruptError
from logdex.layout.rocketmq import BLANK_MAGIC
from logdex.rocketmq.index_file.derive import IndexWindow
from logdex.rocketmq.index_file.index_keys import message_key_hashes
from logdex.rocketmq.index_file.index_service import IndexService
from logdex.rocketmq.index_file.writer import IndexFilesWriter, IndexTarget
from logdex.rocketmq.message.stored_message import StoredMessage, decode_message
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from tests.golden import rocketmq as golden

DERIVED_ANEW = golden.derived_anew()


def config_of(name: str) -> StoreConfig:
    manifest = golden.manifest(name)
    sizes = manifest["geometry"]
    return StoreConfig(
        max_hash_slot_num=sizes["hashSlots"],
        max_index_num=sizes["maxIndexNum"],
        dialect=Dialect.of(manifest["rocketmq"]),
    )


def walk(store: Path) -> Iterator[StoredMessage]:
    """The messages of a CommitLog up to its end, one after the other."""
    for path in sorted((store / "commitlog").iterdir()):
        data, at = path.read_bytes(), 0
        while at + 8 <= len(data) and int.from_bytes(data[at + 4 : at + 8], "big") != BLANK_MAGIC:
            try:
                message, size = decode_message(data, at)
            except CorruptError:
                return
            yield message
            at += size


@functools.cache
def columns(name: str, store: Path) -> IndexWindow:
    config, messages = config_of(name), list(walk(store))
    hashes = [message_key_hashes(message, config.dialect) for message in messages]
    return IndexWindow(
        np.array([message.physical_offset for message in messages], np.int64),
        np.array([message.store_timestamp_ms for message in messages], np.int64),
        np.cumsum([len(keys) for keys in hashes], dtype=np.int32),
        np.array([value for keys in hashes for value in keys], np.int32),
    )


def cut(window: IndexWindow, size: int) -> Iterator[IndexWindow]:
    """The same messages in windows of `size`."""
    for at in range(0, len(window.physical_offset), size):
        first = int(window.key_end[at - 1]) if at else 0
        end = window.key_end[at : at + size]
        yield IndexWindow(
            window.physical_offset[at : at + size],
            window.store_timestamp_ms[at : at + size],
            end - np.int32(first),
            window.key_hash[first : int(end[-1])],
        )


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def expected_digests(name: str, store: Path) -> list[str]:
    manifest = golden.manifest(name)
    files: Any = manifest["recovered"]["files"] if store.name == "recovered" else manifest["files"]
    return [files[path]["sha256"] for path in sorted(files) if path.startswith("index/")]


@pytest.mark.parametrize("plain", [False, True], ids=["kernel", "plain"])
@pytest.mark.parametrize("name", DERIVED_ANEW)
def test_derived_files_equal_the_brokers(name: str, plain: bool, golden_store: Any, tmp_path: Path) -> None:
    store = golden_store(name, recovered=golden.manifest(name)["unclean"])
    config, window = config_of(name), columns(name, store)
    paths: list[Path] = []

    def target(_first_ms: int) -> IndexTarget:
        paths.append(tmp_path / f"{len(paths):04d}")
        return IndexTarget(str(paths[-1]), config)

    with IndexFilesWriter(config, target, plain=plain) as deriver:
        for part in cut(window, 7 if plain else 100):
            deriver.put(part)
    assert [digest(path) for path in paths] == expected_digests(name, store)
    assert len(deriver.headers) == len(paths)


@pytest.mark.parametrize("name", [name for name in DERIVED_ANEW if name != "default-geometry"])
def test_build_index_equals_the_brokers(name: str, golden_store: Any, tmp_path: Path) -> None:
    store = golden_store(name, recovered=golden.manifest(name)["unclean"])
    with IndexService(str(tmp_path), config_of(name), writable=True) as service:
        for message in walk(store):
            service.build_index(message)
    assert [digest(path) for path in sorted(tmp_path.iterdir())] == expected_digests(name, store)


def answer_of_engine(service: IndexService, query: dict[str, Any], min_offset: int) -> tuple[list[int], int, int]:
    """What queryMessage makes of queryOffset: sorted, what has left the log left out; nothing where
    none is found."""
    found = service.query_offset(
        query["topic"], query["key"], query["max"], query["begin"], query["end"], query["indexType"]
    )
    there = sorted(offset for offset in found.phy_offsets if offset >= min_offset)
    return (there, *found[1:]) if found.phy_offsets else ([], 0, 0)


@pytest.mark.parametrize("name", golden.NAMES)
def test_every_query_is_answered_as_by_the_engine(name: str, golden_store: Any) -> None:
    store = golden_store(name, recovered=golden.manifest(name)["unclean"])
    queries, min_offset = golden.manifest(name)["queries"], golden.manifest(name)["store"]["minPhyOffset"]
    with IndexService(str(store / "index"), config_of(name)) as service:
        for query in queries:
            expected = (query["physicalOffsets"], query["indexLastUpdateTimestamp"], query["indexLastUpdatePhyoffset"])
            assert answer_of_engine(service, query, min_offset) == expected, query
            many = service.query_offsets_many(
                query["topic"], [query["key"]], query["max"], query["begin"], query["end"], query["indexType"]
            )
            assert sorted(many.phy_offsets[many.phy_offsets >= min_offset].tolist()) == expected[0], query
    assert queries
