"""Follows a partition that another process writes, such as a live broker or a `Log` elsewhere.
Reads only, and takes no lock.

Only whole batches with a right checksum are returned; a batch that is partly written is waited for.
The follower handles rolls, segments that retention removes, and truncation.

Source: Kafka's FileLogInputStream (what a partly written file can look like); LocalLog.roll,
deleteSegmentFiles and truncateTo (the changes of the directory).
"""

from __future__ import annotations

import os
import posixpath
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from logdex.errors import CorruptError, CrcMismatchError, StorageError, UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.open_files import OpenFiles
from logdex.io.path_look import StrPath
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import RecordBatch, decode_batch
from logdex.kafka.directory.partition_files import open_segments
from logdex.kafka.directory.recognise import KafkaPath, KafkaPathKind
from logdex.kafka.files.file_names import LOG_SUFFIX, offsets_of
from logdex.kafka.read.committed import AbortedTransactions, TransactionFold
from logdex.kafka.read.log_read import READ_BYTES, READ_COMMITTED, READ_UNCOMMITTED, check_isolation
from logdex.kafka.read.scan_state import load_producers
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kafka.segment.file_records import UP_TO_MAGIC_SIZE_BYTES, stated_size
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.segment.transaction_index import AbortedTxn
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.state.producer_state import ProducerStates
from logdex.layout.kafka import LEGACY_SIZE_MIN_V0, LOG_OVERHEAD_SIZE_BYTES

POLL_INTERVAL_S = 0.05
_SIZE_MIN = LOG_OVERHEAD_SIZE_BYTES + LEGACY_SIZE_MIN_V0
_PATIENCE = 40
"""The number of polls for which a whole batch with a wrong checksum at the file's end is treated as
still being written."""


class LogFollower:
    """Follows the records of the partition directory `path` as they are written, from `offset` on.
    By default it starts at the first record of the log.

    `poll` returns what is there. The iterator waits for more until `stop` is called from another
    thread. With ``read_committed``, the records of a transaction are returned in log order once it
    is committed; batches after the start of an open transaction wait in memory until it ends.

    `offset` is the next offset to read. It skips offsets that retention or compaction has removed.
    If the log is truncated below `offset`, `offset` is set back to the log's end, and the offsets
    that are read again hold other records. Not thread-safe except for `stop`.
    """

    def __init__(
        self,
        path: StrPath,
        offset: int = 0,
        *,
        isolation: str = READ_UNCOMMITTED,
        poll_interval_s: float = POLL_INTERVAL_S,
        env: Env = DEFAULT_ENV,
    ) -> None:
        check_isolation(isolation)
        if offset < 0:
            raise UsageError(f"offset is {offset}", hint="say 0 or more")
        self.path = path = os.fspath(path)
        self.offset = offset
        self.poll_interval_s = poll_interval_s
        self._env = env
        self._committed = _CommittedOnly() if isolation == READ_COMMITTED else None
        self._segment: LogSegment | None = None
        self._position = 0
        self._doubts = 0
        self._missed_at = -1
        self._is_first = True
        self._stopped = threading.Event()

    # -- what comes ----------------------------------------------------------------------------------------------------
    def poll(self) -> list[Record]:
        """Returns the records written since the last call, about 1 MiB of them at most; an empty
        list if there are none.

        Raises `StorageError` if the directory no longer exists, and `CorruptError` for bytes that
        stay wrong.
        """
        batches, start = self._next_batches()
        found = [(batch, start) for batch in batches]
        if self._committed is not None:
            found = self._committed.take(batches, start)
        return [
            record
            for batch, begin in found
            if not batch.is_control
            for record in batch.records()
            if record.offset >= begin
        ]

    def __iter__(self) -> Iterator[Record]:
        while not self._stopped.is_set():
            records = self.poll()
            yield from records
            if not records:
                self._stopped.wait(self.poll_interval_s)

    def stop(self) -> None:
        """Ends the iterator after the records that it has already read. May be called from any
        thread."""
        self._stopped.set()

    def close(self) -> None:
        """Stops the iterator and closes the open file."""
        self.stop()
        self._leave_segment()

    def __enter__(self) -> LogFollower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the files -----------------------------------------------------------------------------------------------------
    def _next_batches(self) -> tuple[list[RecordBatch], int]:
        """Returns whole batches, and the offset of their first record to return: the first batch
        may begin before it."""
        bases = self._base_offsets()
        if self._segment is None and not self._enter_segment(bases):
            return [], self.offset
        segment = self._segment
        assert segment is not None
        self._look_for_cut(segment)
        start = self.offset
        batches = self._whole_batches(segment)
        if not batches:
            higher = [base for base in bases if base > segment.base_offset]
            if higher:  # they existed before the segment was read to its end, so it is complete
                self._leave_segment()
                self._go_on(bases, higher[0])
        return batches, start

    def _base_offsets(self) -> list[int]:
        return offsets_of(self._env.list_dir(self.path), LOG_SUFFIX)

    def _go_on(self, bases: list[int], next_base: int) -> None:
        """Moves on after a segment's end. If offsets are missing before the next segment, a
        compaction may have put them into another segment in place of this one. That one is read
        once; if it does not hold them, they are gone."""
        if self.offset < next_base and self._missed_at != self.offset:
            self._missed_at = self.offset
            self._enter_segment(bases)
        else:
            self.offset = max(self.offset, next_base)

    def _enter_segment(self, bases: list[int]) -> bool:
        """Opens the segment that holds `offset`, or the first one after it, at the batch to read
        next."""
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
        is_new = self._is_first or base_offset > self.offset
        self._is_first = False
        self.offset = max(self.offset, base_offset)
        if is_new:
            self._restart_committed(0)  # retention removed what waits, and perhaps its end markers
        self._position = self._find(self._segment, self.offset)[0]
        return True

    def _restart_committed(self, kept_below: int) -> None:
        """Rebuilds the transactions that are open at `offset`, including those that begin before
        it. Batches after their start are held back."""
        if self._committed is None:
            return
        files = OpenFiles(self._env)
        found = open_segments(KafkaPath(self.path, KafkaPathKind.PARTITION), LogConfig(), self._env, files)
        try:
            below = [segment for segment in found if segment.base_offset < self.offset]
            producers = load_producers(self.path, below, self.offset, [], self._env)
        finally:
            for segment in found:
                segment.close()
            files.close()
        self._committed.restart(producers, kept_below)

    def _leave_segment(self) -> None:
        if self._segment is not None:
            self._segment.close()
        self._segment, self._position, self._doubts = None, 0, 0

    def _find(self, segment: LogSegment, offset: int) -> tuple[int, int]:
        """Returns the position of the first batch that holds `offset` or a higher one, and
        `offset`. Without such a batch, returns the end of the whole batches and the offset after
        them."""
        position, after = segment.offset_index.lookup(offset).position, segment.base_offset
        if not 0 <= position <= segment.size_bytes:
            position = 0  # the index was read before the log was cut
        try:
            for header in segment.log.headers(position):
                if header.last_offset >= offset:
                    return position, offset
                position, after = header.position + header.size_bytes, header.last_offset + 1
        except CorruptError:
            pass  # not written yet, or wrong: reading it decides
        return position, after

    def _look_for_cut(self, segment: LogSegment) -> None:
        """Goes back to the end of the log if it was truncated since the last read."""
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
        self._restart_committed(self.offset)

    def _whole_batches(self, segment: LogSegment) -> list[RecordBatch]:
        batches: list[RecordBatch] = []
        data, at = segment.log.read(self._position, READ_BYTES), 0
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
            batches.append(batch)
            at += total
            self._position += total
            self.offset = max(self.offset, batch.last_offset + 1)
        return batches

    def _checked(self, data: bytes, at: int, segment: LogSegment, *, is_last: bool) -> RecordBatch | None:
        """Returns the batch, or None while its bytes may still be being written."""
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
    """Holds batches back until their transactions have ended, and returns the committed ones in log
    order."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[RecordBatch, int]] = deque()
        """Every batch from the first undecided one on, with the offset of its first record to
        return."""
        self._fold = TransactionFold()
        self._aborted: list[AbortedTxn] = []

    def restart(self, producers: ProducerStates, kept_below: int) -> None:
        """Continues with the producer states `producers`. Of the waiting batches, those below
        `kept_below` are kept."""
        self._waiting = deque(each for each in self._waiting if each[0].last_offset < kept_below)
        self._fold = TransactionFold(producers)
        self._aborted = [txn for txn in self._aborted if txn.last_offset < kept_below]

    def take(self, batches: list[RecordBatch], start: int) -> list[tuple[RecordBatch, int]]:
        """Adds `batches`, whose records below `start` are not returned. Returns the batches that
        are committed by now, each with its `start`."""
        self._waiting.extend((batch, start) for batch in batches)
        raw = b"".join(batch.raw for batch in batches)
        for window in BatchScanner(check_crc=False).scan_bytes(raw):
            self._aborted += self._fold.add(window.columns)
        open_from = self._fold.first_open_offset
        aborted, given = AbortedTransactions(self._aborted), []
        while self._waiting and (open_from is None or self._waiting[0][0].base_offset < open_from):
            batch, begin = self._waiting.popleft()
            if not aborted.has(batch):
                given.append((batch, begin))
        if not self._waiting:
            self._aborted.clear()
        return given
