"""The batches of a partition directory that another process writes, as they come.

A batch is given once all of it is in the file. Before batches are taken from a file, the last batch
that was read is compared with the file's bytes. If it is no longer there, the log was truncated, or
a compaction has replaced the file: then the batches that were read are looked for in the log as it
is now, and reading goes on behind the last one that is still there.

Source: Kafka's FileLogInputStream (what a partly written file can look like); LocalLog.roll,
deleteSegmentFiles, truncateTo and replaceSegments (the changes of the directory).
"""

from __future__ import annotations

import posixpath
from dataclasses import replace
from typing import NamedTuple

from logdex.errors import CorruptError, StorageError, VanishedError
from logdex.io.env import Env
from logdex.io.record_lock import Identity
from logdex.kafka.batch.record_batch import RecordBatch, decode_batch
from logdex.kafka.files.file_names import LOG_SUFFIX, SWAP_SUFFIX, offset_file_name, offsets_of
from logdex.kafka.read.follow.seen_batches import (
    HEAD_SIZE_BYTES,
    SeenBatch,
    SeenBatches,
    find_batch,
    is_in_segment,
    last_before,
)
from logdex.kafka.read.log_read import READ_BYTES
from logdex.kafka.read.scan_state import find_end
from logdex.kafka.segment.file_records import UP_TO_MAGIC_SIZE_BYTES, BatchHeader, stated_size
from logdex.kafka.segment.log_segment import LogSegment
from logdex.layout.kafka import LEGACY_SIZE_MIN_V0, LOG_OVERHEAD_SIZE_BYTES

_SIZE_MIN = LOG_OVERHEAD_SIZE_BYTES + LEGACY_SIZE_MIN_V0
_LOOKS_MAX = 3
_PATIENCE = 40
"""The number of polls for which a whole batch with a wrong checksum at the file's end is treated as
still being written, and for which the end of a compaction is waited for."""


class Step(NamedTuple):
    """What one poll found."""

    batches: list[RecordBatch]
    start: int
    """The first offset to return: the first batch may begin before it."""
    restart_below: int | None
    """Not None if the transactions that are open at `start` must be found anew. Of the batches that
    wait for the end of a transaction, those below this offset are still there."""


class _ChangedMeanwhileError(Exception):
    """A segment was removed or replaced since the directory was listed: the next poll looks
    again."""


class FollowedLog:
    """The log in the directory `path`, read from `offset` on.

    `offset` is the next offset to read. It skips offsets that retention or compaction has removed,
    and goes back where the log was truncated. Not thread-safe.
    """

    def __init__(self, path: str, offset: int, env: Env) -> None:
        self.path = path
        self.offset = self.first_offset = offset
        self._env = env
        self.returned: SeenBatch | None = None
        """The batch of the last record that was returned, if there is one."""
        self.cut_to: int | None = None
        """The lowest offset at which the log was found to be cut, or 0 if none of the batches that
        are remembered is there, since `forget_cut` was last called."""
        self._seen = SeenBatches()
        self._segment: LogSegment | None = None
        self._identity: Identity | None = None
        self._position = 0
        self._anchor: tuple[int, bytes] | None = None
        """Position and header of the last batch before `_position`; None if it is not known."""
        self._entered_at = 0
        """`offset` when the open file was opened."""
        self._cut_from: int | None = None
        """Batches from this offset on were read from a file that was truncated since."""
        self._restart_below: int | None = None
        self._missed_at = -1
        self._doubts = self._waits = 0
        self._is_first = True

    @property
    def place(self) -> tuple[int, int | None, int]:
        """Where reading goes on. A call of `read` that returns no batch and does not change it
        found nothing new."""
        return self.offset, self._segment.base_offset if self._segment else None, self._missed_at

    def close(self) -> None:
        """Closes the open file."""
        if self._segment is not None:
            self._segment.close()
        self._segment, self._anchor, self._position, self._doubts = None, None, 0, 0

    def go_back_to(self, offset: int) -> None:
        """Reads on from `offset`, which was read before."""
        self.close()
        self._seen.forget_from(offset)
        self.offset = self._restart_below = max(offset, self.first_offset)

    def remember(self, seen: SeenBatch) -> None:
        """Treats a batch before `offset` as one that was read: a cut before it is noticed."""
        self._seen.add(seen)

    def find_last_before(self, offset: int) -> SeenBatch | None:
        """The last batch of the log that begins before `offset`; None if there is none."""
        try:
            for base in reversed([base for base in self._list_bases()[1] if base < offset]):
                with self._open(base) as segment:
                    found = last_before(segment, offset)
                if found is not None:
                    return found
        except (_ChangedMeanwhileError, VanishedError):
            pass
        return None

    def forget_cut(self) -> None:
        """Sets `cut_to` to None."""
        self.cut_to = None

    def look_for_cut(self) -> None:
        """Sets `cut_to` if the batches that were read are no longer all there. Takes microseconds
        if the last one is where it was."""
        for _ in range(_LOOKS_MAX):
            segment, is_same = self._segment, False
            if segment is not None:
                segment.log.refresh()
                is_same = self._env.identity(segment.log.path) == self._identity
                if is_same and not self._is_cut(segment):
                    return
            names, bases = self._list_bases()
            if is_same:
                self._cut_from = self._entered_at
                self._look_again()
            else:
                self._leave_replaced_file(bases)
            if self._segment is not None or self._is_being_swapped(names) or self._enter(bases):
                return

    def read(self) -> Step:
        """Returns the next whole batches, about 1 MiB of them at most, or none.

        Raises `StorageError` if the directory no longer exists, and `CorruptError` for bytes that
        stay wrong.
        """
        names, bases = self._list_bases()
        self._leave_replaced_file(bases)
        for _ in range(2):  # the second time if the log was cut
            if self._segment is None and (self._is_being_swapped(names) or not self._enter(bases)):
                break
            segment = self._segment
            assert segment is not None
            segment.log.refresh()
            data = segment.log.read(self._position, READ_BYTES)
            if self._is_cut(segment):
                self._cut_from = self._entered_at
                self._look_again()
                continue
            start, position = self.offset, self._position
            batches = self._whole_batches(segment, data)
            if self._position == position:
                self._leave_read_file(segment, bases)
            return self._step(batches, start)
        return self._step([], self.offset)

    def _list_bases(self) -> tuple[list[str], list[int]]:
        names = self._env.list_dir(self.path)
        return names, offsets_of(names, LOG_SUFFIX)

    def _step(self, batches: list[RecordBatch], start: int) -> Step:
        if self._is_first and batches:
            self._is_first, self._restart_below = False, 0
        restart_below, self._restart_below = self._restart_below, None
        return Step(batches, start, restart_below)

    # -- changes of the directory -----------------------------------------------------------------
    def _leave_replaced_file(self, bases: list[int]) -> None:
        """Closes the open file if another has its name, or none has while there are segments before
        it. If all segments are behind what was read, retention has removed it: the open file is
        still read."""
        if self._segment is None or (bases and bases[0] > self._segment.base_offset and bases[0] >= self.offset):
            return
        if self._env.identity(self._segment.log.path) != self._identity:
            self._look_again()

    def _look_again(self) -> None:
        """Closes the open file. What comes behind the last batch that was read is looked for anew,
        also where offsets were skipped."""
        self.close()
        self.offset = self._seen.end_offset(self.first_offset)

    def _is_being_swapped(self, names: list[str]) -> bool:
        """Whether a compaction is about to give segments their names. A broker that crashed may
        have left it so, hence the wait is bounded."""
        if offsets_of(names, LOG_SUFFIX + SWAP_SUFFIX) and self._waits < _PATIENCE:
            self._waits += 1
            return True
        self._waits = 0
        return False

    def _leave_read_file(self, segment: LogSegment, bases: list[int]) -> None:
        """Moves on after a segment's end. If offsets are missing before the next segment, a
        compaction may have put them into another segment in place of this one. That one is read
        once; if it does not hold them, they are gone."""
        higher = [base for base in bases if base > segment.base_offset]
        if higher:  # they existed before the segment was read to its end, so it is complete
            self.close()
            if self.offset < higher[0] and self._missed_at != self.offset:
                self._missed_at = self.offset
            else:
                self.offset = max(self.offset, higher[0])
        elif self._anchor is None and self.offset > segment.base_offset:
            self.close()  # without a batch to compare, the position is found anew each time

    def _enter(self, bases: list[int]) -> bool:
        """Opens the segment that holds `offset`, or the first one after it, at the batch to read
        next. Returns whether there is one."""
        if not bases:
            return False
        try:
            self._go_back(bases)
            segment = self._open(_holder(bases, self.offset, bases[0]))
        except (_ChangedMeanwhileError, VanishedError):
            return False
        offset = max(self.offset, segment.base_offset)
        try:
            passed, found = find_batch(segment, offset)
        except VanishedError:  # an index of a segment that a broker removes
            segment.close()
            return False
        if segment.base_offset > self.offset or segment.base_offset == bases[0] == self.offset:
            self._restart_below = 0  # retention removed what waits, and perhaps its end markers
        self.offset = self._entered_at = offset
        self._segment = segment
        self._position = found.position if found else passed.end if passed else 0
        self._anchor = None
        if passed is not None:
            self._anchor = passed.position, segment.log.read(passed.position, _head_size(passed))
        return True

    def _open(self, base_offset: int) -> LogSegment:
        """Opens a segment and notes which file it is."""
        path = posixpath.join(self.path, offset_file_name(base_offset, LOG_SUFFIX))
        self._identity = self._env.identity(path)
        try:
            segment = LogSegment(self.path, base_offset, env=self._env)
        except StorageError as error:
            if self._env.exists(path):
                raise
            raise _ChangedMeanwhileError from error
        if self._env.identity(path) != self._identity:
            segment.close()
            raise _ChangedMeanwhileError
        return segment

    # -- a log that was cut -----------------------------------------------------------------------
    def _is_cut(self, segment: LogSegment) -> bool:
        """Whether the last batch before `_position` is no longer there."""
        if self._anchor is None:
            return segment.size_bytes < self._position
        position, head = self._anchor
        return segment.log.read(position, len(head)) != head

    def _go_back(self, bases: list[int]) -> None:
        """Sets `offset` back to where the log differs from what was read, if it does."""
        cut_from = self._cut_from

        def is_there(seen: SeenBatch) -> bool:
            base_offset = _holder(bases, seen.last_offset, -1)
            if base_offset < 0:
                return True  # removed by retention, or by a new beginning behind it
            was_cut = cut_from is not None and seen.base_offset >= cut_from
            with self._open(base_offset) as segment:
                return is_in_segment(seen, segment, is_last=base_offset == bases[-1], was_cut=was_cut)

        offset = self._seen.first_different_offset(is_there)
        if offset is not None:
            returned = self.returned  # not all batches are remembered, but this one is
            if returned is not None and offset <= returned.last_offset and is_there(returned):
                offset = returned.last_offset + 1
            with self._open(bases[-1]) as last:
                end = find_end(last, self._env)[0]
            self._seen.forget_from(offset)
            self.cut_to = min(offset, end, end if self.cut_to is None else self.cut_to)
            self.offset = self._restart_below = min(max(offset, self.first_offset), end)
            self._missed_at = -1
        self._cut_from = None

    # -- batches ----------------------------------------------------------------------------------
    def _whole_batches(self, segment: LogSegment, data: bytes) -> list[RecordBatch]:
        """The whole batches at the start of `data`, which are the bytes from `_position` on."""
        batches: list[RecordBatch] = []
        at = 0
        while at + UP_TO_MAGIC_SIZE_BYTES <= len(data):
            total = stated_size(data, at)
            if total < _SIZE_MIN:
                break  # zeros that are not written yet
            if total > len(data) - at:
                if batches or self._position + total > segment.log.size_bytes:
                    break  # left to the next poll
                data, at = segment.log.read(self._position, total), 0
            batch = self._checked(data, at, segment, is_last=self._position + total >= segment.log.size_bytes)
            if batch is None:
                break
            if batch.last_offset >= self.offset:  # else it came before an offset that is waited for
                batches.append(batch)
            self._seen.add(SeenBatch.of(batch))
            self._anchor = self._position, batch.raw[:HEAD_SIZE_BYTES]
            at += total
            self._position += total
            self.offset = max(self.offset, batch.last_offset + 1)
        return batches

    def _checked(self, data: bytes, at: int, segment: LogSegment, *, is_last: bool) -> RecordBatch | None:
        """Returns the batch, or None while its bytes may still be being written."""
        try:
            batch, _ = decode_batch(data, at, path=segment.log.path, check_crc=False)
            batch = replace(batch, position=self._position)
            batch.check_crc()
        except CorruptError:
            self._doubts += 1
            if self._doubts <= (_PATIENCE if is_last else 1):
                return None
            raise
        self._doubts = 0
        return batch


def _holder(bases: list[int], offset: int, otherwise: int) -> int:
    """The base offset of the segment that has `offset`, by its name."""
    return max((base for base in bases if base <= offset), default=otherwise)


def _head_size(header: BatchHeader) -> int:
    return min(header.size_bytes, HEAD_SIZE_BYTES)
