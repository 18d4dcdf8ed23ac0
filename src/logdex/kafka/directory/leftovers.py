"""Which of the ``.cleaned`` and ``.swap`` files that a crash leaves beside the segments are valid.

Source: Kafka's LogLoader.removeTempFilesAndCollectSwapFiles, load (passes one to three).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from logdex.kafka.files.file_names import CLEANED_SUFFIX, LOG_SUFFIX, parse_offset_file


def first_cleaned_offset(names: Iterable[str]) -> int:
    """Returns the smallest offset of the ``.cleaned`` files among a directory's `names`, or 2**63
    without such a file. ``.swap`` files from this offset on are not valid."""
    cleaned = (offset_of_name(name) for name in names if name.endswith(CLEANED_SUFFIX))
    return min((offset for offset in cleaned if offset is not None), default=1 << 63)


def covered_offsets(next_offsets: Mapping[int, int]) -> range:
    """Returns the range of offsets that ``.log.swap`` files cover. Segments whose base offset lies
    in it are replaced. `next_offsets` maps the base offset of each ``.log.swap`` file to its next
    offset."""
    if not next_offsets:
        return range(0)
    # an empty file covers its own base offset
    return range(min(next_offsets), max(*next_offsets.values(), max(next_offsets) + 1))


def offset_of_name(name: str) -> int | None:
    """Returns the offset at the start of a file's name, whatever suffix follows; None if the name
    does not begin with an offset."""
    head, _, tail = name.partition(".")
    found = parse_offset_file(f"{head}{LOG_SUFFIX}") if tail else None
    return None if found is None else found[0]
