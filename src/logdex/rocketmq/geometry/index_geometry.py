"""Infers the number of slots and entries of an IndexFile from its size and its content.

The size determines slots + 5 * entries (in 4-byte words), which fits many pairs. The content tells
them apart: with the right pair the entries form chains, as each links to the previous entry of its
slot. Testing a pair reads few bytes; only if no usual pair fits, the whole file is searched for its
first entry. Source: ``docs/formats/index-file.md``; IndexFile.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex import limits
from logdex.errors import CorruptError, GeometryError, UnreadableError, VanishedError
from logdex.io.env import Env, ReadFile
from logdex.layout.rocketmq import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT
from logdex.rocketmq.index_file.index_header import IndexHeader
from logdex.rocketmq.settings.store_config import StoreConfig

_ROWS_TRIED = 256
"""The number of entries to check per pair: enough to rule out chance, few enough to be cheap."""
_ROWS_TRIED_LAST = 64
_SLOTS_TRIED = 32
_SHARE_MIN = 0.6
"""A damaged entry breaks a few links; a wrong pair breaks nearly all."""
_ENTRY_0_WEIGHT = 16
"""Entry 0 is never written, so bytes there mean that the pair is wrong or the entry is damaged."""
_CHUNK_ROWS = 1 << 18

RowArray = npt.NDArray[np.void]


class IndexGeometry(NamedTuple):
    """maxHashSlotNum and maxIndexNum."""

    max_hash_slot_num: int
    max_index_num: int

    @property
    def file_size_bytes(self) -> int:
        """The size of an IndexFile."""
        return self.entries_at + self.max_index_num * INDEX_ENTRY.size_bytes

    @property
    def entries_at(self) -> int:
        """The position of entry 0 in the file."""
        return INDEX_HEADER.size_bytes + self.max_hash_slot_num * INDEX_SLOT.size_bytes


def read_header(file: ReadFile) -> IndexHeader:
    """Reads the header of an open IndexFile."""
    return IndexHeader.unpack(file.read_at(0, INDEX_HEADER.size_bytes), path=file.path)


def read_rows(file: ReadFile, geometry: IndexGeometry, first: int, count: int) -> RowArray:
    """Reads entries `first` to `first + count - 1` as laid out by a geometry; fewer at the file's
    end."""
    at = geometry.entries_at + first * INDEX_ENTRY.size_bytes
    data = file.read_at(at, count * INDEX_ENTRY.size_bytes)
    return np.frombuffer(data[: len(data) // INDEX_ENTRY.size_bytes * INDEX_ENTRY.size_bytes], INDEX_ENTRY.dtype)


def pair_of_size(size_bytes: int, *, slots: int | None = None, entries: int | None = None) -> IndexGeometry | None:
    """The pair with this number of slots or entries that has this file size, or None."""
    body = size_bytes - INDEX_HEADER.size_bytes
    rest = 0
    if entries is not None:
        slots, rest = divmod(body - entries * INDEX_ENTRY.size_bytes, INDEX_SLOT.size_bytes)
    elif slots is not None:
        entries, rest = divmod(body - slots * INDEX_SLOT.size_bytes, INDEX_ENTRY.size_bytes)
    if slots is None or entries is None or rest:
        return None
    possible = 1 <= slots <= limits.HASH_SLOT_NUM_MAX and 2 <= entries <= limits.INDEX_NUM_MAX
    return IndexGeometry(slots, entries) if possible else None


def agreement(file: ReadFile, geometry: IndexGeometry) -> int:
    """How many of the first entries and their slots agree with a geometry; 0 if too few do."""
    rows = read_rows(file, geometry, 0, _ROWS_TRIED + 1)
    checks = _ENTRY_0_WEIGHT if any(rows[:1].tobytes()) else 0
    rows = rows[1:]
    written = (rows["key_hash"] != 0) | (rows["phy_offset"] != 0) | (rows["previous_index"] != 0)
    count = int(np.argmin(written)) if not written.all() else len(rows)
    last: dict[int, int] = {}
    good = 0
    for index, row in enumerate(rows[:count].tolist(), 1):
        key_hash, phy_offset, time_diff, previous = row
        slot = key_hash % geometry.max_hash_slot_num
        good += key_hash >= 0 and phy_offset >= 0 and time_diff >= 0 and previous == last.get(slot, 0)
        checks += 1
        last[slot] = index
    for slot in list(last)[:_SLOTS_TRIED]:
        good += last[slot] <= _slot_value(file, slot) < geometry.max_index_num
        checks += 1
    return good if good > _SHARE_MIN * checks else 0


def sizes_of(paths: list[str], env: Env) -> dict[str, int]:
    """Returns the size of each file, without those that a broker removes meanwhile."""
    sizes = {}
    for path in paths:
        with contextlib.suppress(VanishedError):
            sizes[path] = env.size_bytes(path)
    return sizes


def infer_index_geometry(env: Env, paths: list[str]) -> tuple[IndexGeometry, str]:
    """Returns the geometry of a store's IndexFiles and the reason in words. `paths` must not be
    empty.

    A file that cannot be read, or that a broker removes meanwhile, tells nothing. Raises
    `GeometryError` if the files fit several pairs, or none.
    """
    sizes = sizes_of(paths, env)
    counts = Counter(sizes.values() or [0])
    size = max(counts, key=lambda length: (counts[length], length))  # files get truncated, but they do not grow
    alike = [path for path in paths if sizes.get(path) == size] or paths
    if size < INDEX_HEADER.size_bytes:
        raise _undecided(alike[0], size, [])
    # All files but the last are full. A few reads of a full one decide, so these come first.
    tried: list[IndexGeometry] = []
    for search in (False, True):
        for path in alike:
            try:
                with env.open_read(path) as file:
                    found = _candidates(file, search)
            except (UnreadableError, VanishedError):
                continue
            tried += [geometry for geometry in found if geometry not in tried]
            if len(found) == 1:
                slots, entries = found[0]
                return found[0], f"index: {slots} slots and {entries} entries agree with the content of {path}"
    raise _undecided(alike[0], size, tried)


def require_content(env: Env, paths: list[str], stated: IndexGeometry) -> None:
    """Raises `GeometryError` if a stated geometry has the size of the IndexFiles, but the last
    entries of none of them fit it, and those of one fit another geometry."""
    alike = [path for path, size in sizes_of(paths, env).items() if size == stated.file_size_bytes]
    judged = [_do_last_entries_fit(env, path, stated) for path in alike]
    if any(judged) or all(each is None for each in judged):
        return
    try:
        shown, reason = infer_index_geometry(env, alike)
    except (GeometryError, CorruptError):
        return  # the content shows none
    if shown != stated and any(_do_last_entries_fit(env, path, shown) for path in alike):
        pair = f"maxHashSlotNum {stated.max_hash_slot_num} and maxIndexNum {stated.max_index_num}"
        hint = "leave them out to have them inferred"
        raise GeometryError(f"{pair} are stated, but {reason}", path=alike[0], hint=hint)


def _do_last_entries_fit(env: Env, path: str, geometry: IndexGeometry) -> bool | None:
    """Whether the last entries of a file fit a geometry. None if the file has no entries or cannot
    be read."""
    try:
        with env.open_read(path) as file:
            header = read_header(file)
            return last_entries_fit(file, header, geometry) if header.index_count > 1 else None
    except (CorruptError, UnreadableError, VanishedError):
        return None


def last_entries_fit(file: ReadFile, header: IndexHeader, geometry: IndexGeometry) -> bool:
    """Whether most of the last entries that the header counts are in the slots of their hashes.

    Unlike the links among the first entries, which are all 0 where keys seldom repeat, this tells
    a pair from one whose entries are shifted.
    """
    last = min(header.index_count, geometry.max_index_num) - 1
    first = max(last - _ROWS_TRIED_LAST + 1, 1)
    rows = read_rows(file, geometry, first, last - first + 1).tolist()
    good = 0
    for index, (key_hash, phy_offset, _, previous) in enumerate(rows, first):
        is_written = key_hash > 0 or phy_offset > 0 or previous > 0
        if is_written and key_hash >= 0 and 0 <= phy_offset <= header.end_phy_offset and 0 <= previous < index:
            head = _slot_value(file, key_hash % geometry.max_hash_slot_num)
            good += index <= head < geometry.max_index_num
    return good > _SHARE_MIN * len(rows) > 0


def _slot_value(file: ReadFile, slot: int) -> int:
    at = INDEX_HEADER.size_bytes + slot * INDEX_SLOT.size_bytes
    return int.from_bytes(file.read_at(at, INDEX_SLOT.size_bytes), "big", signed=True)


def _candidates(file: ReadFile, search: bool) -> list[IndexGeometry]:
    """The pairs that best agree with a file's content; none without entries.

    Its first and its last entries must agree with a pair. Only with `search`, which reads the whole
    file, one end is enough, because the other or the header may be damaged.
    """
    header = read_header(file)
    default = StoreConfig()
    pairs = [
        pair_of_size(file.size_bytes, slots=default.max_hash_slot_num),
        pair_of_size(file.size_bytes, entries=header.index_count),
    ]
    if search:
        pairs += [pair_of_size(file.size_bytes, slots=slots) for slots in _search_first_entry(file, header)]
    possible = [pair for pair in dict.fromkeys(pairs) if pair is not None and not _is_cut(file, header, pair)]
    scores = {pair: agreement(file, pair) for pair in possible}
    at_end = [pair for pair in possible if last_entries_fit(file, header, pair)]
    best = _best(at_end, scores)
    if best or not (search or header.index_count <= 1):
        return best
    if len(at_end) == 1 and header.index_count > _ROWS_TRIED_LAST:
        return at_end
    return _best(possible, scores)


def _best(pairs: list[IndexGeometry], scores: dict[IndexGeometry, int]) -> list[IndexGeometry]:
    best = max((scores[pair] for pair in pairs), default=0)
    return [pair for pair in pairs if scores[pair] == best > 0]


def _is_cut(file: ReadFile, header: IndexHeader, pair: IndexGeometry) -> bool:
    """Whether the file is truncated under `pair`, so that its size shows no geometry.

    It is if the header counts more entries than fit, and the last entry is not of the header's last
    message.
    """
    if header.index_count <= pair.max_index_num:
        return False
    last = read_rows(file, pair, pair.max_index_num - 1, 1)
    return bool((last["phy_offset"] != header.end_phy_offset).any())


def _search_first_entry(file: ReadFile, header: IndexHeader) -> list[int]:
    """Candidate numbers of slots, found by searching the file once, in parts, for an edge of the
    entries.

    That is entry 1, which has the header's first message and follows an unused entry 0, or the last
    entry, which has the header's last message.
    """
    body = file.size_bytes - INDEX_HEADER.size_bytes
    row_size = INDEX_ENTRY.size_bytes
    shift = INDEX_HEADER.size_bytes + body % row_size  # the entries end where the file ends
    found: list[int] = []
    for first in range(0, body // row_size, _CHUNK_ROWS):
        # Reads one more row than the part, because each row is compared with the previous one.
        data = file.read_at(shift + first * row_size, (_CHUNK_ROWS + 1) * row_size)
        whole = data[: len(data) // row_size * row_size]
        rows = np.frombuffer(whole, INDEX_ENTRY.dtype)
        is_zero: npt.NDArray[np.bool_] = np.frombuffer(whole, np.uint32).reshape(-1, 5).max(axis=1) == 0
        begins = is_zero[:-1] & ~is_zero[1:] & (rows["previous_index"] == 0)[1:]
        begins &= (rows["phy_offset"] == header.begin_phy_offset)[1:]
        ends = ~is_zero & (rows["phy_offset"] == header.end_phy_offset) & (rows["previous_index"] < header.index_count)
        found += (first + np.flatnonzero(begins)).tolist()
        found += (first + np.flatnonzero(ends)[-_SLOTS_TRIED:] - header.entry_count).tolist()
    slots = {(body % row_size + row * row_size) // INDEX_SLOT.size_bytes for row in found}
    return sorted(slot for slot in slots if slot > 0)


def _undecided(path: str, size: int, tried: list[IndexGeometry]) -> GeometryError:
    """The error for a size that fits several pairs, or none, with some of them."""
    examples = tried
    if not tried:
        guesses = (pair_of_size(size, entries=size // share) for share in (28, 40, 60, 100))
        examples = [pair for pair in guesses if pair]
    what = "fits several pairs of" if tried else "shows no"
    pairs = ", ".join(f"{pair.max_hash_slot_num} and {pair.max_index_num}" for pair in examples[:4])
    return GeometryError(
        f"an IndexFile of {size} bytes {what} maxHashSlotNum and maxIndexNum"
        + (f"; its length would allow {pairs}" if pairs else ""),
        path=path,
        hint="pass --max-hash-slot-num and --max-index-num (max_hash_slot_num, max_index_num), or --broker-conf FILE",
    )
