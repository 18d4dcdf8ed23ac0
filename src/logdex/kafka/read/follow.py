"""Following a partition that another process writes: a live broker's, or a `Log` elsewhere. Only reads, takes no lock.

What is handed out is whole and its checksum is right: a batch that is only half there is waited for. Rolls, segments
that retention removes, and truncation are followed. Source: Kafka's FileLogInputStream (what a half-written file can
look like); the directory's steps are those of LocalLog.roll, deleteSegmentFiles and truncateTo.
"""

from __future__ import annotations

import posixpath
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from logdex.errors import CorruptError, CrcMismatchError, StorageError, UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import RecordBatch, decode_batch
from logdex.kafka.files.file_names import LOG_SUFFIX, offsets_of
from logdex.kafka.read.log_read import READ_BYTES, READ_COMMITTED, READ_UNCOMMITTED, check_isolation
from logdex.kafka.segment.file_records import UP_TO_MAGIC_SIZE_BYTES, stated_size
from logdex.kafka.segment.log_segment import LogSegment
from logdex.layout.kafka import CONTROL_ABORT, LEGACY_SIZE_MIN_V0, LOG_OVERHEAD_SIZE_BYTES

POLL_INTERVAL_S = 0.05
_SIZE_MIN = LOG_OVERHEAD_SIZE_BYTES + LEGACY_SIZE_MIN_V0
_PATIENCE = 40
"""Polls for which a whole batch with a wrong checksum at the file's end counts as one that is still being written."""


class LogFollower:
    """Records of the partition directory `path` as they come, from `offset` on (the log's first one unless given).

    `poll` gives what is there, the iterator waits for more until `stop` is called from another thread. With
    ``read_committed``, records of a transaction come when it is committed, in the order of the log; what is behind an
    open transaction waits in memory until it ends. `offset` is the next one; it jumps over what retention or compaction
    has removed, and goes back where the log was cut, whose offsets then come again with other records. One thread.
    """

    def __init__(
        self,
        path: str,
        offset: int = 0,
        *,
        isolation: str = READ_UNCOMMITTED,
        poll_interval_s: float = POLL_INTERVAL_S,
        env: Env = DEFAULT_ENV,
    ) -> None:
        check_isolation(isolation)
        if offset < 0:
            raise UsageError(f"offset is {offset}", hint="say 0 or more")
        self.path = path
        self.offset = offset
        self.poll_interval_s = poll_interval_s
        self._env = env
        self._committed = _CommittedOnly() if isolation == READ_COMMITTED else None
        self._segment: LogSegment | None = None
        self._position = 0
        self._doubts = 0
        self._stopped = threading.Event()

    # -- what comes ----------------------------------------------------------------------------------------------------
    def poll(self) -> list[Record]:
        """What has come since the last call, about a MiB of it at most; empty where nothing has.

        Raises `StorageError` where the directory is gone, `CorruptError` for bytes that stay wrong.
        """
        start = self.offset
        batches = self._next_batches()
        if self._committed is not None:
            batches = self._committed.take(batches)
            start = 0
        return [
            record for batch in batches if not batch.is_control for record in batch.records() if record.offset >= start
        ]

    def __iter__(self) -> Iterator[Record]:
        while not self._stopped.is_set():
            records = self.poll()
            yield from records
            if not records:
                self._stopped.wait(self.poll_interval_s)

    def stop(self) -> None:
        """Ends the iterator once it has given what it read. From any thread."""
        self._stopped.set()

    def close(self) -> None:
        """Stops, and closes the file that is read."""
        self.stop()
        self._leave_segment()

    def __enter__(self) -> LogFollower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the files -----------------------------------------------------------------------------------------------------
    def _next_batches(self) -> list[RecordBatch]:
        bases = self._base_offsets()
        if self._segment is None and not self._enter_segment(bases):
            return []
        segment = self._segment
        assert segment is not None
        self._look_for_cut(segment)
        batches = self._whole_batches(segment)
        if not batches:
            higher = [base for base in bases if base > segment.base_offset]
            if higher:  # they were there before the segment was read to its end, so it is done
                self._leave_segment()
                self.offset = max(self.offset, higher[0])
        return batches

    def _base_offsets(self) -> list[int]:
        return offsets_of(self._env.list_dir(self.path), LOG_SUFFIX)

    def _enter_segment(self, bases: list[int]) -> bool:
        """Opens the segment that holds `offset`, or the first one behind it, at the batch to go on from."""
        below = [base for base in bases if base <= self.offset]
        if not bases:
            return False
        base_offset = below[-1] if below else bases[0]
        try:
            self._segment = LogSegment(self.path, base_offset, env=self._env)
        except StorageError:
            if self._env.exists(posixpath.join(self.path, f"{base_offset:020d}{LOG_SUFFIX}")):
                raise
            return False  # removed since the directory was listed
        self.offset = max(self.offset, base_offset)
        self._position = self._find(self._segment, self.offset)[0]
        return True

    def _leave_segment(self) -> None:
        if self._segment is not None:
            self._segment.close()
        self._segment, self._position, self._doubts = None, 0, 0

    def _find(self, segment: LogSegment, offset: int) -> tuple[int, int]:
        """Where the first batch begins that holds `offset` or more, and `offset`; else where the whole batches end, and
        the offset behind them."""
        position, after = segment.offset_index.lookup(offset).position, segment.base_offset
        if not 0 <= position <= segment.size_bytes:
            position = 0  # the index was read before the log was cut
        try:
            for header in segment.log.headers(position):
                if header.last_offset >= offset:
                    return position, offset
                position, after = header.position + header.size_bytes, header.last_offset + 1
        except CorruptError:
            pass  # not written yet, or wrong: reading it will tell
        return position, after

    def _look_for_cut(self, segment: LogSegment) -> None:
        """Goes back to the end of a log that was cut behind our back."""
        try:
            size = self._env.size_bytes(segment.log.path)
        except StorageError:
            return  # removed by retention: the open file still has all of it
        if size >= self._position:
            segment.log.refresh()
            return
        base_offset = segment.base_offset
        self._leave_segment()
        self._segment = LogSegment(self.path, base_offset, env=self._env)
        self._position, self.offset = self._find(self._segment, self.offset)
        if self._committed is not None:
            self._committed.forget_from(self.offset)

    def _whole_batches(self, segment: LogSegment) -> list[RecordBatch]:
        batches: list[RecordBatch] = []
        data, at = segment.log.read(self._position, READ_BYTES), 0
        while at + UP_TO_MAGIC_SIZE_BYTES <= len(data):
            total = stated_size(data, at)
            if total < _SIZE_MIN:
                break  # zeros that are not written yet
            if total > len(data) - at:
                if batches or self._position + total > segment.log.size_bytes:
                    break  # the next poll's
                data, at = segment.log.read(self._position, total), 0
            batch = self._checked(data, at, segment, is_last=self._position + total >= segment.log.size_bytes)
            if batch is None:
                break
            batches.append(batch)
            at += total
            self._position += total
            self.offset = max(self.offset, batch.last_offset + 1)
        return batches

    def _checked(self, data: bytes, at: int, segment: LogSegment, *, is_last: bool) -> RecordBatch | None:
        """The batch, or None while its bytes may still be on their way."""
        batch, _ = decode_batch(data, at, path=segment.log.path, check_crc=False)
        batch = replace(batch, position=self._position)
        try:
            batch.check_crc()
        except CrcMismatchError:
            self._doubts += 1
            if is_last and self._doubts <= _PATIENCE:
                return None
            raise
        self._doubts = 0
        return batch


class _CommittedOnly:
    """Holds back what is not decided; gives batches in the order of the log once they are."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[RecordBatch, bool]] = deque()
        """A batch and whether it is sure to be given."""

    def take(self, batches: list[RecordBatch]) -> list[RecordBatch]:
        for batch in batches:
            if batch.is_control and batch.control_type is not None:
                self._decide(batch.producer_id, is_aborted=batch.control_type == CONTROL_ABORT)
            elif not batch.is_control:
                self._waiting.append((batch, not batch.is_transactional))
        given = []
        while self._waiting and self._waiting[0][1]:
            given.append(self._waiting.popleft()[0])
        return given

    def _decide(self, producer_id: int, *, is_aborted: bool) -> None:
        self._waiting = deque(
            (batch, is_sure or batch.producer_id == producer_id)
            for batch, is_sure in self._waiting
            if is_sure or batch.producer_id != producer_id or not is_aborted
        )

    def forget_from(self, offset: int) -> None:
        """The log was cut there."""
        self._waiting = deque(each for each in self._waiting if each[0].last_offset < offset)
