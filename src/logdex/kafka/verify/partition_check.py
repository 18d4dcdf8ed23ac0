"""Checks one partition: its segments in order, and all files derived from them."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

import numpy as np

from logdex.errors import StorageError, VanishedError
from logdex.io.env import Env
from logdex.jobs.reports import Progress
from logdex.kafka.files import file_names as files
from logdex.kafka.files.file_names import parse_offset_file
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.state.epoch_runs import EpochRuns
from logdex.kafka.verify.checks import Collector
from logdex.kafka.verify.directory_check import check_partition_metadata, list_offset_files
from logdex.kafka.verify.epoch_check import check_epochs
from logdex.kafka.verify.index.index_pair import IndexPair
from logdex.kafka.verify.index.key_index_check import check_key_index
from logdex.kafka.verify.producer_check import ProducerCheck
from logdex.kafka.verify.segment.segment_pass import Segment, SegmentPass
from logdex.kafka.verify.sequence_check import SequenceCheck
from logdex.primitives.shown import counted


@dataclass(slots=True)
class Totals:
    """The number of records and the bytes of logs read so far. `older_entry` tells which index
    entry was the first that only a broker before 3.9.1, or 4.0.0, writes."""

    records: int = 0
    bytes: int = 0
    older_entry: str = ""


class PartitionCheck:
    """Checks the partition in `directory`. With `only`, just the segment at that base offset is
    checked. `log_start_offset` is the checkpointed one, or 0 without one. `is_clean` states whether
    the partition was closed cleanly; None if that is unknown. Not thread-safe."""

    def __init__(
        self,
        directory: str,
        config: LogConfig,
        out: Collector,
        env: Env,
        totals: Totals,
        *,
        log_start_offset: int,
        is_clean: bool | None,
        only: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._directory = directory
        self._config = config
        self._out = out
        self._env = env
        self._totals = totals
        self._log_start_offset = log_start_offset
        self._is_clean = is_clean
        self._only = only
        self._progress = progress
        self._runs = EpochRuns(log_start_offset)
        self._sequences = SequenceCheck(log_start_offset, out)
        self._differences: list[tuple[str, str]] = []
        self._older_entries: list[tuple[str, list[int]]] = []
        self._is_first = True
        self.next_offset = 0
        self.end_is_certain = True
        """Whether no bytes were lost at the log's end."""

    def run(self) -> None:
        """Runs all checks and reports the findings."""
        found = list_offset_files(self._directory, self._out, self._env)
        logs = found[files.LOG_SUFFIX]
        bases = sorted(logs)
        snapshots = {} if self._only is not None else found[files.SNAPSHOT_SUFFIX]
        producers = ProducerCheck(snapshots, self._log_start_offset, self._out, self._env)
        for base, following in zip(bases, [*bases, None][1:], strict=True):
            if self._only is None or parse_offset_file(posixpath.basename(logs[base])) == (
                self._only,
                files.LOG_SUFFIX,
            ):
                others = {suffix: paths[base] for suffix, paths in found.items() if base in paths}
                segment = Segment(logs[base], base, following, self._config.segment_bytes, others)
                self._check_segment(segment, producers)
        self._tell_older_entries()
        self._tell_differences()
        self._check_snapshot_places(bases, found[files.SNAPSHOT_SUFFIX])
        if self._only is not None:
            return
        producers.finish(self.next_offset, self._directory, end_is_lost=not self.end_is_certain)
        path = f"{self._directory}/{files.LEADER_EPOCH_CHECKPOINT}"
        check_epochs(
            path,
            self._runs,
            self._out,
            self._env,
            log_start_offset=self._log_start_offset,
            is_unclean=self._is_clean is not True,
        )
        check_partition_metadata(self._directory, self._out, self._env)
        if self._sequences.explained:
            message = counted(self._sequences.explained, "gap", "gaps")
            message += " in producers' sequence numbers, where offsets are missing too or a producer began anew"
            self._out.info("producer-sequence-gaps", self._directory, message)

    def _check_segment(self, segment: Segment, producers: ProducerCheck) -> None:
        self._out.files += 1
        scanned = SegmentPass(segment, self._out, self._env)
        indexes = IndexPair(segment, self._config, self._out, self._env)
        before = self._tell_missing_before(segment)
        producers.begin_segment(segment.base_offset)
        holes = 0
        gaps = 0
        try:
            for window in scanned.windows():
                columns = window.columns
                if len(scanned.holes) > holes:
                    holes = len(scanned.holes)
                    producers.lose_bytes()
                    self._sequences.lose()
                indexes.add(window)
                producers.add(columns, segment.path)
                self._sequences.add(columns, segment.path)
                self._runs.add(columns, segment.path)
                expected = np.append(before, columns.last_offset[:-1] + 1)
                # wrappers (magic 0 and 1) do not state a count
                gaps += int(((columns.base_offset != expected) & (columns.count >= 0)).sum())
                before = int(columns.last_offset[-1]) + 1
                self._tell_progress(scanned)
        except VanishedError:
            raise  # the partition is looked at again
        except StorageError as error:
            self._out.find("unreadable", segment.path, 0, error.message, mend="check the disk and the file's mode")
            scanned.has_bad_tail = True
        if len(scanned.holes) > holes or scanned.has_bad_tail:
            producers.lose_bytes()
            self._sequences.lose()
        if gaps and self._only is None:
            told = counted(gaps, "gap", "gaps")
            self._out.info("offset-gap", segment.path, f"{told} in offsets: compaction, or records that are lost")
        indexes.finish(scanned, self._is_clean)
        self._differences += indexes.differences
        self._older_entries += indexes.older_entries
        if self._only is None:
            is_growing = segment.next_base is None and self._is_clean is not True
            log = (segment.path, scanned.size_bytes) if is_growing else None
            producers.end_segment(segment.beside(files.TXN_INDEX_SUFFIX), segment.base_offset, log)
        check_key_index(segment.beside(files.KEY_INDEX_SUFFIX), segment, scanned, self._out, self._env)
        self.next_offset = max(scanned.next_offset, self.next_offset)
        self.end_is_certain = not scanned.has_bad_tail
        self._totals.records += scanned.records
        self._totals.bytes += scanned.size_bytes

    def _tell_missing_before(self, segment: Segment) -> int:
        """Reports, as information, offsets between two segments that neither damage nor the start
        of the log explains. Returns the offset from which gaps of the segment are counted."""
        base, end = segment.base_offset, self.next_offset
        if self._is_first or self._only is not None:
            self._is_first = False
            return base
        if end < base and self.end_is_certain:
            message = f"offsets {end} to {base - 1} are not there: a segment may be missing, or compaction left none"
            self._out.info("offset-gap", segment.path, message)
            return base
        return end

    def _tell_older_entries(self) -> None:
        """Reports, as information, which indexes a broker of the older rule wrote."""
        if not self._older_entries:
            return
        path, entries = self._older_entries[0]
        self._totals.older_entry = self._totals.older_entry or f"entry {entries[0]} of {path}"
        told = counted(sum(len(entries) for _, entries in self._older_entries), "index entry is", "index entries are")
        where = path.rpartition("/")[2] + (", …" if len(self._older_entries) > 1 else "")
        message = f"{told} as only brokers before 3.9.1, and 4.0.0, write them ({where})"
        self._out.info("older-index-entries", self._directory, message)

    def _tell_differences(self) -> None:
        """Reports the indexes that differ from those that a recovery would write: a single one by
        itself, several in one note."""
        if len(self._differences) < 2:
            for path, message in self._differences:
                self._out.info("index-differs", path, message)
            return
        paths = [path for path, _ in self._differences]
        interval = self._config.index_interval_bytes
        message = f"{len(paths)} indexes are not those that a recovery with index.interval.bytes {interval} would write"
        hint = "segments were reopened or truncated, or the interval is another: say it with --index-interval-bytes"
        self._out.info("index-differs", self._directory, f"{message} ({paths[0].rpartition('/')[2]}, …): {hint}")

    def _tell_progress(self, scanned: SegmentPass) -> None:
        if self._progress is not None:
            self._progress(self._totals.records + scanned.records, self._totals.bytes + scanned.end_position)

    def _check_snapshot_places(self, bases: list[int], snapshots: dict[int, str]) -> None:
        """Reports, as information, producer snapshots at an offset where no segment begins. The
        broker writes such a snapshot at a restart and removes it when it next loads the log."""
        for offset, path in snapshots.items():
            if offset not in bases and offset < self.next_offset and self._only is None:
                self._out.info("producer-snapshot-offset", path, "at the base of no segment, and not at the log's end")
