"""What the ``.cleaned`` and ``.swap`` files that a crash leaves beside the segments say: which of them count.

Source: Kafka's LogLoader.removeTempFilesAndCollectSwapFiles, load (passes one to three).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from logdex.kafka.files.file_names import CLEANED_SUFFIX, LOG_SUFFIX, parse_offset_file


def first_cleaned_offset(names: Iterable[str]) -> int:
    """Of the ``.cleaned`` files among a directory's `names`, the first one's: from there on no ``.swap`` counts."""
    cleaned = (offset_of_name(name) for name in names if name.endswith(CLEANED_SUFFIX))
    return min((offset for offset in cleaned if offset is not None), default=1 << 63)


def covered_offsets(next_offsets: Mapping[int, int]) -> range:
    """Segments that begin here are replaced by ``.log.swap`` files, whose next offsets are given by base offset."""
    if not next_offsets:
        return range(0)
    return range(min(next_offsets), max(*next_offsets.values(), max(next_offsets) + 1))  # an empty one has a name too


def offset_of_name(name: str) -> int | None:
    """The offset that a file's name begins with, whatever follows."""
    head, _, tail = name.partition(".")
    found = parse_offset_file(f"{head}{LOG_SUFFIX}") if tail else None
    return None if found is None else found[0]
