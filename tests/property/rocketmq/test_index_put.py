"""One log, every way of deriving its IndexFiles: the same bytes. Windows cut anywhere, files of any
size, any task."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from logdex.layout.rocketmq import MESSAGE_MAGIC_V1, SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK
from logdex.primitives.host import Host
from logdex.rocketmq.index_file.derive import IndexWindow, index_file_name, index_file_names
from logdex.rocketmq.index_file.index_header import IndexHeader
from logdex.rocketmq.index_file.index_keys import message_key_hashes
from logdex.rocketmq.index_file.index_service import IndexService
from logdex.rocketmq.index_file.writer import IndexFilesWriter, IndexTarget
from logdex.rocketmq.message.properties import format_properties
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig


class Case(NamedTuple):
    config: StoreConfig
    messages: list[StoredMessage]
    cuts: list[int]


def _message(number: int, offset: int, stored_ms: int, sys_flag: int, keys: list[str], tag: str) -> StoredMessage:
    pairs = [(b"UNIQ_KEY", b"%d" % number)] if number % 3 else []
    pairs += [(b"KEYS", " ".join(keys).encode()), (b"TAGS", tag.encode())]
    return StoredMessage(
        size_bytes=100,
        magic=MESSAGE_MAGIC_V1,
        body_crc=0,
        queue_id=0,
        flag=0,
        queue_offset=number,
        physical_offset=offset,
        sys_flag=sys_flag,
        born_timestamp_ms=0,
        born_host=Host.unpack(bytes(8)),
        store_timestamp_ms=stored_ms,
        store_host=Host.unpack(bytes(8)),
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=b"",
        topic=b"orders",
        properties_raw=format_properties([(name, value) for name, value in pairs if value]),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    version = draw(st.sampled_from(["4.7.0", "4.9.7", "5.3.3", "5.5.0"]))
    config = StoreConfig(
        max_hash_slot_num=draw(st.integers(1, 12)), max_index_num=draw(st.integers(2, 9)), dialect=Dialect.of(version)
    )
    times = st.one_of(st.integers(0, 9000), st.sampled_from([-5, 0, 1 << 62, -(1 << 63), (1 << 63) - 1]))
    parts = draw(
        st.lists(
            st.tuples(
                times,
                st.sampled_from([0, 0, 0, SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK]),
                st.lists(st.sampled_from(["", "a", "b", "key-1"]), max_size=6),
                st.sampled_from(["", "paid"]),
            ),
            max_size=25,
        )
    )
    base = 1_700_000_000_000
    messages = [
        _message(i, 100 * i, base + time if 0 <= time <= 9000 else time, flag, keys, tag)
        for i, (time, flag, keys, tag) in enumerate(parts)
    ]
    return Case(config, messages, sorted(draw(st.lists(st.integers(0, len(messages)), max_size=3))))


def _window(messages: list[StoredMessage], config: StoreConfig) -> IndexWindow:
    hashes = [message_key_hashes(message, config.dialect) for message in messages]
    return IndexWindow(
        np.array([message.physical_offset for message in messages], np.int64),
        np.array([message.store_timestamp_ms for message in messages], np.int64),
        np.cumsum([len(keys) for keys in hashes], dtype=np.int32),
        np.array([value for keys in hashes for value in keys], np.int32),
    )


def _targets(folder: Path, config: StoreConfig, firsts: list[int]) -> Callable[[int], IndexTarget]:
    def make(first_ms: int) -> IndexTarget:
        firsts.append(first_ms)
        return IndexTarget(str(folder / f"{len(list(folder.iterdir())):04d}"), config)

    return make


def _contents(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def _derived(case: Case, plain: bool) -> tuple[list[bytes], list[int], list[IndexHeader]]:
    bounds = [0, *case.cuts, len(case.messages)]
    firsts: list[int] = []
    with tempfile.TemporaryDirectory() as name:
        deriver = IndexFilesWriter(case.config, _targets(Path(name), case.config, firsts), plain=plain)
        with deriver:
            for start, end in pairwise(bounds):
                window = _window(case.messages[start:end], case.config)
                assert deriver.put(window) == (end - start, len(window.key_hash))
        return _contents(Path(name)), firsts, deriver.headers


def _built_one_by_one(case: Case) -> list[bytes]:
    with tempfile.TemporaryDirectory() as name:
        with IndexService(name, case.config, writable=True) as service:
            for message in case.messages:
                service.build_index(message)
        return _contents(Path(name))


def _derived_by_tasks(case: Case) -> list[bytes]:
    """Each file by a deriver of its own, as Spark's tasks do; what it needs to know comes from the
    one before."""
    window = _window(case.messages, case.config)
    place, previous = (0, 0), None
    with tempfile.TemporaryDirectory() as name:
        while place[0] < len(case.messages):
            make = _targets(Path(name), case.config, [])
            with IndexFilesWriter(case.config, make, previous=previous, max_files=1) as deriver:
                place = deriver.put(window, *place)
                previous = deriver.finish()
        return _contents(Path(name))


@settings(deadline=None)
@given(cases())
def test_all_ways_give_the_same_files(case: Case) -> None:
    files, firsts, headers = _derived(case, plain=False)
    assert (files, firsts, headers) == _derived(case, plain=True)
    assert files == _built_one_by_one(case)
    assert files == _derived_by_tasks(case)
    assert [IndexHeader.unpack(file) for file in files] == headers
    assert sum(header.entry_count for header in headers) == len(_window(case.messages, case.config).key_hash)


@given(st.lists(st.one_of(st.integers(0, 5), st.integers(-(1 << 63), (1 << 63) - 1)), max_size=20))
def test_names_are_unique_and_sort_in_the_order_of_rolling(times: list[int]) -> None:
    names = index_file_names(times)
    assert names == sorted(set(names))
    assert all(len(name) == 17 and name.isdigit() for name in names)
    assert names[:1] == [index_file_name(time) for time in times[:1]]


def test_a_name_is_the_utc_time_of_the_first_entry() -> None:
    assert index_file_name(1_700_000_000_123) == "20231114221320123"
    assert index_file_name(1_700_000_000_122, "20231114221320123") == "20231114221320124"
    assert index_file_name(0, "20231231235959999") == "20240101000000000"
