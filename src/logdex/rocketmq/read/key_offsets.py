"""The physical offsets that the IndexFiles name for a key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from logdex.errors import CorruptError, LogdexError
from logdex.rocketmq.index_file.index_file import ChainEnd, IndexEntry, IndexFile
from logdex.rocketmq.read.key_question import KeyQuestion
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
    """Offsets below `below` of the entries that may be meant, descending. A file is read only when
    it is needed."""
    newest_first = sorted(files, key=lambda file: file.header.end_phy_offset, reverse=True)
    headers = [file.header for file in newest_first]
    in_order = all(new.begin_phy_offset >= old.end_phy_offset for new, old in pairwise(headers))
    for group in [[file] for file in newest_first] if in_order else [newest_first]:
        offsets = {offset for file in group for offset in _chain_offsets(file, question, problems) if offset < below}
        yield from sorted(offsets, reverse=True)


def _chain_offsets(file: IndexFile, question: KeyQuestion, problems: list[LogdexError]) -> list[int]:
    """Offsets of a file's entries that have the question's hash and may be of its time; reads one
    chain, all of it. A chain that does not end as it should, or leads into another one, is a
    problem: it may have lost entries."""
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
        file.reload()  # a broker has put more since the header was read, and the slot names what it put
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
    """Whether an entry can be of a message of the time asked for. Its time is in whole seconds; a
    clock that went back leaves 0, the first entry of a rolled file counts from the file before:
    then only the message tells."""
    if index == 1 or not 0 < entry.time_diff_s < _TIME_DIFF_MAX_S:
        return True
    time_ms = file.entry_time_ms(entry)
    return time_ms <= question.end_ms and time_ms + 999 >= question.begin_ms
