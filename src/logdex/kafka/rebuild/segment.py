"""The first phase of a rebuild: derives the files of each segment from its .log alone.

The files are .index and .timeindex as `LogSegment.recover` writes them, optionally .keyindex, and a
stage file with the batches that the second phase (`state`) needs. Each attempt writes into a
directory of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from logdex.errors import CorruptError, OffsetOrderError, OffsetOverflowError, VanishedError
from logdex.io.env import Env
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.output_files import OutputFiles
from logdex.jobs.tasks import Count
from logdex.kafka.files.file_names import INDEX_SUFFIX, KEY_INDEX_SUFFIX, TIME_INDEX_SUFFIX, offset_file_name
from logdex.kafka.key_index.build import build_key_index
from logdex.kafka.rebuild.source import SourceSegment
from logdex.kafka.rebuild.stage import StagedRows, StageWriter
from logdex.kafka.scan.behind_unreadable import scan_readable
from logdex.kafka.scan.rising_batches import CONTRADICTION, RisingBatches, all_rise, expected_offset
from logdex.kafka.scan.scanner import WINDOW_BATCHES, BatchScanner, EndKind
from logdex.kafka.segment.segment_recovery import DerivedSegment, derive_segment, first_fall
from logdex.kernels.kafka.batch_columns import BatchColumns
from logdex.layout.kafka import KEY_INDEX_HEADER, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from logdex.primitives.shown import counted


@dataclass(frozen=True, slots=True)
class RebuildSettings:
    """The settings of a rebuild.

    `index_interval_bytes` is None if it is inferred from existing indexes. The output does not
    depend on `window_batches`.
    """

    index_interval_bytes: int | None
    key_index: bool = False
    sync: bool = True
    window_batches: int = WINDOW_BATCHES


@dataclass(frozen=True, slots=True)
class SegmentDone:
    """The files `names` of a segment in `directory`, and its counts for the report. There are none
    if a broker had removed or replaced the segment, so that it `is_gone`. `has_unreadable` states
    that there are bytes that cannot be read; `staged` has the batches before the first of them.

    `size_bytes` is the size of the good batches, `end` states why they end, and `error` where and
    what is wrong after them. `losses` lists what else is missing from the files.
    """

    source: SourceSegment
    directory: str
    names: tuple[str, ...]
    staged: StagedRows | None
    batches: int
    messages: int
    size_bytes: int
    next_offset: int
    end: EndKind
    error: str
    offset_entries: int
    time_entries: int
    key_entries: int
    losses: tuple[str, ...]
    is_gone: bool = False
    has_unreadable: bool = False

    @staticmethod
    def gone(source: SourceSegment) -> SegmentDone:
        """Returns the result for a segment that is not there any more."""
        counts = (0, 0, source.size_bytes, source.base_offset, EndKind.END, "", 0, 0, 0)
        return SegmentDone(source, "", (), None, *counts, losses=(), is_gone=True)

    @property
    def is_whole(self) -> bool:
        """Whether the good batches reach the end that the file had at the start. A broker may have
        appended more since."""
        return self.size_bytes >= self.source.size_bytes


def derive_segments(
    directory: str, settings: RebuildSettings, env: Env, segments: list[SourceSegment], attempt: str, count: Count
) -> list[SegmentDone]:
    """A task: derives the files of some segments, below this attempt's own directory in
    `directory`."""
    own = f"{directory}/{attempt}"
    env.make_dirs(own)
    done = []
    with OutputFiles(env, sync=settings.sync) as files:
        for number, segment in enumerate(segments):
            folder = f"{own}/{segment.partition}".rstrip("/")
            try:
                done.append(_derive(segment, f"{own}/{number}.stage", folder, settings, files, env, count))
            except VanishedError as error:
                if error.path != segment.path:
                    raise
                done.append(SegmentDone.gone(segment))
    return done


def _derive(
    segment: SourceSegment,
    stage_path: str,
    directory: str,
    settings: RebuildSettings,
    files: OutputFiles,
    env: Env,
    count: Count,
) -> SegmentDone:
    found = _Scan(segment, stage_path, settings, env, count)
    derived, base = found.derived, segment.base_offset
    if found.end is EndKind.END and derived.size_bytes < segment.size_bytes:
        return SegmentDone.gone(segment)  # a shorter file has taken its place, or it was truncated
    outputs: dict[str, bytes | ByteArray] = {
        offset_file_name(base, INDEX_SUFFIX): derived.offset_index,
        offset_file_name(base, TIME_INDEX_SUFFIX): derived.time_index,
    }
    losses = [f"{each.why}; bytes {each.start} to {each.end} are in no index" for each in derived.left_out]
    key_entries = 0
    if not found.is_rising:
        losses += _contradictions(segment, derived.size_bytes, env)
    if settings.key_index:
        try:
            keys = build_key_index(segment.path, base_offset=base, stop=derived.size_bytes, env=env)
            outputs[offset_file_name(base, KEY_INDEX_SUFFIX)] = keys
            key_entries = _entry_count(keys)
        except CorruptError as error:
            losses.append(f"{segment.path}: the key index was not built: {error}")
    for name, data in outputs.items():
        files.put(f"{directory}/{name}", data)
    return SegmentDone(
        source=segment,
        directory=directory,
        names=tuple(outputs),
        staged=found.staged,
        batches=derived.batches,
        messages=found.messages,
        size_bytes=derived.size_bytes,
        next_offset=derived.next_offset,
        end=found.end,
        error=found.error,
        offset_entries=len(derived.offset_index) // OFFSET_INDEX_ENTRY.size_bytes,
        time_entries=len(derived.time_index) // TIME_INDEX_ENTRY.size_bytes,
        key_entries=key_entries,
        losses=tuple(losses),
        has_unreadable=derived.end.is_unreadable or bool(derived.left_out),
    )


def _contradictions(segment: SourceSegment, stop: int, env: Env) -> list[str]:
    """Returns what to tell of the batches that readers leave out, because their offsets contradict
    their neighbours'. The indexes are those of a broker's recovery all the same."""
    first, count, before = None, 0, segment.base_offset - 1
    rising = RisingBatches(before)
    scanner = BatchScanner(check_crc=False, env=env, unreadable_is_damage=True)
    windows = (rising.add(window.columns) for window in scan_readable(scanner, segment.path, stop, [], env))
    for judged in (*windows, rising.flush()):
        if judged is None:
            continue
        wrong = np.flatnonzero(~judged.good & (judged.columns.count != 0))  # nothing is lost with an empty one
        if len(wrong) and first is None:
            columns, place = judged.columns, int(wrong[0])
            kept = columns.last_offset[:place][judged.good[:place]]
            expected = expected_offset(int(columns.base_offset[place]), int(kept[-1]) if len(kept) else before)
            first = f"byte {int(columns.position[place])}: {CONTRADICTION}: expected {expected}"
            first += f", found {int(columns.base_offset[place])}"
        count, before = count + len(wrong), rising.last_offset
    more = f"; so do {counted(count - 1, 'more batch', 'more batches')}" if count > 1 else ""
    return [] if first is None else [f"{segment.path}: {first}{more}: readers leave it out"]


def _entry_count(key_index: ByteArray) -> int:
    at = KEY_INDEX_HEADER.offset_of("entry_count")
    return int.from_bytes(key_index[at : at + 4].tobytes(), "big")


class _Scan:
    """Scans a segment; twice if the offsets of a batch do not fit the indexes.

    The second scan ends before that batch.
    """

    def __init__(
        self, segment: SourceSegment, stage_path: str, settings: RebuildSettings, env: Env, count: Count
    ) -> None:
        self._segment = segment
        self._settings = settings
        self._env = env
        self._count = count
        self._counted = self.messages = 0
        self.is_rising = True
        """Whether the offsets of the good batches rise."""
        try:
            self.derived = self._run(stage_path, None)
            end = self.derived.end
            self.end, self.error = end.kind, "" if end.error is None else end.error.message
            if end.kind is EndKind.ZEROS:
                self.error = f"{segment.path}: byte {end.position}: {end.reason}"
        except (OffsetOrderError, OffsetOverflowError) as error:
            self.end, self.error = EndKind.CORRUPT, error.message
            stop: int | None = error.position
            if isinstance(error, OffsetOrderError):  # offsets may have decreased earlier, between two index entries
                stop = first_fall(segment.path, segment.base_offset, skips_unreadable=True, env=env)
            self.derived = self._run(f"{stage_path}-again", stop)

    def _run(self, stage_path: str, stop: int | None) -> DerivedSegment:
        self.messages, at, last = 0, 0, self._segment.base_offset - 1
        is_behind = False
        """Whether the batches come behind bytes that cannot be read."""
        with StageWriter(stage_path, self._env) as stage:

            def take(columns: BatchColumns) -> None:
                nonlocal at, last, is_behind
                is_behind = is_behind or int(columns.position[0]) > at
                if not is_behind:
                    stage.put(columns)
                self.is_rising = self.is_rising and all_rise(columns.base_offset, columns.last_offset, last)
                last = int(columns.last_offset[-1])
                messages = int(abs(columns.count).sum())  # -1 is a compressed wrapper of an old format
                self.messages += messages
                at = int(columns.position[-1]) + int(columns.size[-1])
                if at > self._counted:
                    self._count(messages, at - self._counted)
                    self._counted = at

            derived = derive_segment(
                self._segment.path,
                self._segment.base_offset,
                self._segment.index_interval_bytes,
                stop=stop,
                window_batches=self._settings.window_batches,
                on_columns=take,
                skips_unreadable=True,
                env=self._env,
            )
            self.staged = stage.finish()
        return derived
