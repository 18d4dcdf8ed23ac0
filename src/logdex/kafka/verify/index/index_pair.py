"""Checks both sparse indexes of a segment: whether they exist, whether their entries are right,
whether they reach the end, and whether a recovery would write the same."""

from __future__ import annotations

from logdex.errors import CorruptError
from logdex.io.env import Env
from logdex.kafka.batch.record import NO_TIMESTAMP
from logdex.kafka.files.file_names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from logdex.kafka.scan.scanner import BatchWindow
from logdex.kafka.segment.derive_indexes import IndexFold, encode_offset_entries, encode_time_entries
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.verify.checks import Collector
from logdex.kafka.verify.index.index_entries import IndexEntries
from logdex.kafka.verify.index.offset_index_check import OffsetIndexEntries
from logdex.kafka.verify.index.time_index_check import TimeIndexEntries
from logdex.kafka.verify.segment.segment_pass import Segment, SegmentPass
from logdex.primitives.shown import counted


class IndexPair:
    """Checks the `.index` and the `.timeindex` of one log. Call `add` per window, then `finish`.
    Not thread-safe."""

    def __init__(self, segment: Segment, config: LogConfig, out: Collector, env: Env) -> None:
        self._segment = segment
        self._out = out
        self._offset = OffsetIndexEntries(segment.beside(INDEX_SUFFIX), segment.base_offset, out, env)
        self._time = TimeIndexEntries(segment.beside(TIME_INDEX_SUFFIX), segment.base_offset, out, env)
        self._fold: IndexFold | None = IndexFold(segment.base_offset, config.index_interval_bytes, path=segment.path)
        self.differences: list[tuple[str, str]] = []
        """(path, description) of each index that differs from the one that a recovery would
        write."""
        self.older_entries: list[tuple[str, list[int]]] = []
        """(path, numbers of the entries) of each index with entries that only a broker before
        3.9.1, or 4.0.0, writes."""
        self._derived: tuple[list[bytes], list[bytes]] = ([], [])

    def add(self, window: BatchWindow) -> None:
        """Adds a window of good batches."""
        self._offset.add(window)
        self._time.add(window)
        if self._fold is None:
            return
        try:
            offset_entries, time_entries = self._fold.add(window.columns)
        except CorruptError:  # offsets that overflow or fall are reported elsewhere
            self._fold = None
            return
        self._derived[0].append(encode_offset_entries(offset_entries, self._segment.base_offset))
        self._derived[1].append(encode_time_entries(time_entries, self._segment.base_offset))

    def finish(self, scanned: SegmentPass, is_clean: bool | None) -> None:
        """Reports the findings. `is_clean` states whether the broker closed the log cleanly; None
        if that is unknown."""
        is_active = self._segment.next_base is None
        largest = self._fold.max_timestamp if self._fold is not None else None
        if self._fold is not None and not scanned.holes:
            try:
                self._derived[1].append(encode_time_entries(self._fold.finish(), self._segment.base_offset))
            except CorruptError:
                largest = None
            self._tell_differences(is_active)
        last, zero_slots = self._time.last_entry, self._time.zero_slots
        end = self._time.count * self._time.layout.size_bytes
        self._offset.compare_times(self._time)
        for index, check in ((self._offset, "offset-index-missing"), (self._time, "time-index-missing")):
            self._tell_presence(index, check, is_active, is_clean)
            index.finish(scanned)
            if len(index.older_entries):
                self.older_entries.append((index.path, index.older_entries.tolist()))
        is_closed = not is_active or is_clean is True or (is_clean is None and zero_slots == 0)
        if largest is None or scanned.holes or not is_closed or not self._time.is_whole:
            return
        if last is None and zero_slots and largest == (0, self._segment.base_offset):
            return  # its entry is zeros, as those are that may follow it
        timestamp, offset = largest
        told_ms = None if last is None else last[0]  # its offset was judged
        if timestamp > NO_TIMESTAMP and told_ms != timestamp and self._time.last_is_judged_true:
            self._out.find(
                "time-index-end",
                self._time.path,
                end,
                "the last entry does not tell of the largest timestamp: look-ups by time miss what is behind it",
                expected=f"({timestamp}, {offset - self._segment.base_offset})",
                found="no entry" if last is None else f"({last[0]}, {last[1] - self._segment.base_offset})",
                mend=self._out.rebuild,
            )

    def _tell_presence(self, index: IndexEntries, check: str, is_active: bool, is_clean: bool | None) -> None:
        message = "the index is not there"
        if index.is_missing and is_active and is_clean is False and not any(self._derived[0]):
            # A broker makes the indexes of a new segment after its first append.
            self._out.info(check, index.path, f"{message} yet, and would have no entry")
        elif index.is_missing:
            self._out.find(check, index.path, 0, message, expected="a file", found="none", mend=self._out.rebuild)
        elif index.zero_slots and not is_active:
            size = index.zero_slots * index.layout.size_bytes
            self._out.info("index-not-trimmed", index.path, f"{size} zero bytes behind the last entry")

    def _tell_differences(self, is_active: bool) -> None:
        for index, parts in zip((self._offset, self._time), self._derived, strict=True):
            derived = b"".join(parts)
            if index.is_missing or index.is_unreadable or index.used_bytes() == derived:
                continue
            if is_active and index.zero_slots and derived.startswith(index.used_bytes()):
                continue  # still being written: the entry that closing adds is not there yet
            count = len(derived) // index.layout.size_bytes
            interval = self._fold.interval_bytes if self._fold is not None else 0
            told = counted(index.count, "true entry", "true entries")
            message = f"{told}; a recovery with index.interval.bytes {interval} would write {count}"
            self.differences.append((index.path, message))
