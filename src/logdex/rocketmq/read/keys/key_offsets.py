"""Finds the physical offsets of a key in the IndexFiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from logdex.errors import CorruptError, LogdexError
from logdex.rocketmq.index_file.index_file import ChainEnd, IndexEntry, IndexFile
from logdex.rocketmq.read.keys.key_question import KeyQuestion
from logdex.rocketmq.read.results import OffsetRange

_TIME_DIFF_MAX_S = (1 << 31) - 1
_CHAIN_READS_MAX = 8


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """The IndexFiles of a log that ends at `valid_end`, and the ranges with keys that they do not
    cover."""

    files: Sequence[IndexFile]
    missing: tuple[OffsetRange, ...]
    valid_end: int


def index_offsets(
    files: Sequence[IndexFile], question: KeyQuestion, below: int, problems: list[LogdexError]
) -> Iterator[int]:
    """Yields the offsets below `below` of the entries that may match, descending. A file is read
    only when it is needed."""
    newest_first = sorted(files, key=lambda file: file.header.end_phy_offset, reverse=True)
    headers = [file.header for file in newest_first]
    in_order = all(new.begin_phy_offset >= old.end_phy_offset for new, old in pairwise(headers))
    for group in [[file] for file in newest_first] if in_order else [newest_first]:
        offsets = {offset for file in group for offset in _chain_offsets(file, question, problems) if offset < below}
        yield from sorted(offsets, reverse=True)


def _chain_offsets(file: IndexFile, question: KeyQuestion, problems: list[LogdexError]) -> list[int]:
    """Returns the offsets of a file's entries with the question's hash that may match its times.
    Reads one whole chain. If a chain does not end properly, or leads into another one, an error is
    added to `problems`, because entries may be lost."""
    key_hash = question.key_hash()
    found: list[int] = []
    strange: int | None = None
    chain = file.chain(key_hash)
    for _ in range(_CHAIN_READS_MAX):
        chain, count, strange = file.chain(key_hash), file.header.index_count, None
        found = []
        for index, entry in chain:
            if entry.key_hash == key_hash and _may_be_in_time(file, index, entry, question):
                found.append(entry.phy_offset)
            elif entry.key_hash % file.max_hash_slot_num != chain.slot and strange is None:
                strange = index
        if chain.end is not ChainEnd.BEYOND_COUNT:
            break
        file.reload()  # a broker has added entries since the header was read, and the slot points to them
        if file.header.index_count == count:
            break
    if strange is not None:
        problems.append(_damaged(file, file.entry_position(strange), "an entry of another chain", "key_hash"))
    elif chain.end is not ChainEnd.FIRST or chain.went_forward:
        why = "a link forward" if chain.end in (None, ChainEnd.FIRST) else chain.end.value
        problems.append(_damaged(file, file.slot_position(chain.slot), f"the chain of this slot has {why}", "slot"))
    return found


def _damaged(file: IndexFile, position: int, message: str, field: str) -> CorruptError:
    hint = "logdex rebuild derives the index anew"
    return CorruptError(message, path=file.path, position=position, field=field, hint=hint)


def _may_be_in_time(file: IndexFile, index: int, entry: IndexEntry, question: KeyQuestion) -> bool:
    """Whether an entry may belong to a message within the requested times. Its time is in whole
    seconds. It is 0 after a clock went back, and the first entry of a rolled file is relative to
    the previous file; then only the message can decide."""
    if index == 1 or not 0 < entry.time_diff_s < _TIME_DIFF_MAX_S:
        return True
    time_ms = file.entry_time_ms(entry)
    return time_ms <= question.end_ms and time_ms + 999 >= question.begin_ms
