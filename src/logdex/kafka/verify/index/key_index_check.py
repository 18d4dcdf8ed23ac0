"""Checks that a `.keyindex` is whole and belongs to its log."""

from __future__ import annotations

from logdex.errors import CorruptError, UnreadableError, UnsupportedLayoutError
from logdex.io.env import Env
from logdex.kafka.key_index import KeyIndex
from logdex.kafka.verify.checks import Collector
from logdex.kafka.verify.segment.segment_pass import Segment, SegmentPass
from logdex.primitives.shown import counted

_MEND = "remove the file or rebuild it: it can be derived from the .log"


def check_key_index(path: str, segment: Segment, scanned: SegmentPass, out: Collector, env: Env) -> None:
    """Reports a finding if the key index at `path` exists and is damaged or belongs to another log.
    A key index that does not cover the whole log, or is of an unsupported version, is
    information."""
    if not env.exists(path):
        return
    out.files += 1
    try:
        with KeyIndex.open(path, env=env) as index:
            index.verify()
            is_of_log = index.was_built_from(segment.path)
            covered, base_offset = index.header.log_size, index.base_offset
    except (CorruptError, UnreadableError) as error:
        out.find_error("key-index", error, _MEND)
        return
    except UnsupportedLayoutError as error:
        out.info("key-index-version", path, error.message)
        return
    if not is_of_log and (scanned.holes or scanned.has_bad_tail or out.is_blamed(segment.path)):
        out.info("key-index-stale", path, "the log is damaged: a key index is built anew from what is saved")
    elif base_offset != segment.base_offset or not is_of_log:
        found = f"base offset {base_offset}, {covered} bytes of another log"
        expected = f"base offset {segment.base_offset}, this log"
        out.find("key-index", path, 0, "built from another log", expected=expected, found=found, mend=_MEND)
    elif covered < scanned.end_position:
        behind = scanned.end_position - covered
        told = counted(behind, "byte at the log's end is", "bytes at the log's end are")
        out.info("key-index-behind", path, f"{told} not in it yet")
