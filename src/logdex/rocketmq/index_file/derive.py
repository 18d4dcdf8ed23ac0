"""The bytes of IndexFiles as a function of the messages: the one definition that rebuild, Spark
tasks and verify use.

Source: ``docs/formats/index-file.md``; IndexService.buildIndex, IndexFile.putKey.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.layout.rocketmq import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT
from logdex.rocketmq.index_file.index_header import IndexHeader
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.settings.time_zone import UTC_ZONE, TimeZone

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


_INT_MAX = (1 << 31) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAME_MS_MAX = 253_402_214_400_000
"""9999-12-31. A later time, which cannot be right, is replaced by this one. That leaves a day for
raising names."""


class IndexWindow(NamedTuple):
    """Consecutive messages of the log with the hashes of their keys, as arrays.

    It must hold **all** messages of the log in order. Message i of n has the hashes
    `key_hash[key_end[i - 1] : key_end[i]]`, in the dialect's order of UNIQ_KEY, KEYS and TAGS.
    ROLLBACK messages have none.
    """

    physical_offset: Int64s
    store_timestamp_ms: Int64s
    key_end: Int32s
    key_hash: Int32s


def index_file_name(first_store_timestamp_ms: int, previous_name: str | None = None, zone: TimeZone = UTC_ZONE) -> str:
    """Returns the name of an IndexFile: the time of its first entry in `zone`, as
    ``yyyyMMddHHmmssSSS``, raised to sort after `previous_name`."""
    name = _format_name(zone.local_ms(min(max(first_store_timestamp_ms, 0), _NAME_MS_MAX)))
    if previous_name is not None and name <= previous_name:
        seconds = datetime.strptime(previous_name[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC) - _EPOCH
        name = _format_name(seconds // timedelta(milliseconds=1) + int(previous_name[14:]) + 1)
    return name


def _format_name(timestamp_ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    return f"{moment:%Y%m%d%H%M%S}{timestamp_ms % 1000:03d}".zfill(17)


def index_file_names(first_store_timestamps_ms: Iterable[int], zone: TimeZone = UTC_ZONE) -> list[str]:
    """Returns the names of a store's IndexFiles in the order of rolling, from the store times of
    their first entries (ms)."""
    names: list[str] = []
    for timestamp_ms in first_store_timestamps_ms:
        names.append(index_file_name(timestamp_ms, names[-1] if names else None, zone))
    return names


class IndexState:
    """The header of an IndexFile that is being filled, and the position in the window. `index_put`
    updates both."""

    def __init__(self, header: IndexHeader) -> None:
        self.values = np.array([*header, 0, 0], np.int64)

    @property
    def header(self) -> IndexHeader:
        """The current header."""
        return IndexHeader(*(int(value) for value in self.values[:6]))

    @property
    def place(self) -> tuple[int, int]:
        """The number of the next message and of the next key of the window."""
        return int(self.values[6]), int(self.values[7])

    @place.setter
    def place(self, place: tuple[int, int]) -> None:
        self.values[6], self.values[7] = place


def derive_index(
    array: npt.NDArray[np.uint8],
    block: npt.NDArray[np.uint8],
    config: StoreConfig,
    window: IndexWindow,
    state: IndexState,
    limit: int,
    *,
    skip_known: bool = True,
    plain: bool = False,
) -> None:
    """Adds the entries of the window's messages from `state.place` on, until the window ends or the
    file's count reaches `limit`.

    `array` holds the file's header and slots; the slots are updated. New entries are written to the
    beginning of `block`, which must have room for the entries from the current count to `limit`.
    `state` is updated. With `skip_known`, messages before the header's end physical offset are
    skipped. `plain` uses the plain twin instead of the kernel.
    """
    if plain:
        index_put_plain(array, block, config, window, state, limit, skip_known=skip_known)
        return
    from logdex.kernels.rocketmq.index_put import index_put

    index_put(
        array.ctypes.data,
        block.ctypes.data,
        config.max_hash_slot_num,
        limit,
        config.dialect.slot_count_every_put,
        skip_known,
        *window,
        state.values,
    )


def index_put_plain(
    array: npt.NDArray[np.uint8],
    block: npt.NDArray[np.uint8],
    config: StoreConfig,
    window: IndexWindow,
    state: IndexState,
    limit: int,
    *,
    skip_known: bool = True,
) -> None:
    """The plain twin of the `index_put` kernel: adds entries until the window ends or the count
    reaches `limit`."""
    data, entries = array.data, block.data
    header, (message, key) = state.header, state.place
    entry_at = 0
    while message < len(window.physical_offset) and header.index_count < limit:
        offset, stored_ms = int(window.physical_offset[message]), int(window.store_timestamp_ms[message])
        last = int(window.key_end[message])
        if skip_known and offset < header.end_phy_offset:
            key = last
        while key < last and header.index_count < limit:
            value = int(window.key_hash[key])
            slot_at = INDEX_HEADER.size_bytes + INDEX_SLOT.size_bytes * (value % config.max_hash_slot_num)
            (previous,) = INDEX_SLOT.struct.unpack_from(data, slot_at)
            if previous <= 0 or previous > header.index_count:
                previous = 0
            INDEX_ENTRY.struct.pack_into(
                entries, entry_at, value, offset, time_diff_s(stored_ms, header.begin_timestamp_ms), previous
            )
            entry_at += INDEX_ENTRY.size_bytes
            INDEX_SLOT.struct.pack_into(data, slot_at, header.index_count)
            first = header.index_count <= 1
            header = IndexHeader(
                stored_ms if first else header.begin_timestamp_ms,
                stored_ms,
                offset if first else header.begin_phy_offset,
                offset,
                header.hash_slot_count + (config.dialect.slot_count_every_put or previous == 0),
                header.index_count + 1,
            )
            key += 1
        if key >= last:
            message += 1
    state.values[:] = (*header, message, key)


def time_diff_s(store_timestamp_ms: int, begin_timestamp_ms: int) -> int:
    """Returns the seconds since a file's begin timestamp as an entry stores them: 0 to 2^31 - 1.
    The difference wraps as a Java long does."""
    if begin_timestamp_ms <= 0:
        return 0
    difference = (store_timestamp_ms - begin_timestamp_ms + (1 << 63)) % (1 << 64) - (1 << 63)
    return min(max(difference // 1000, 0), _INT_MAX)
