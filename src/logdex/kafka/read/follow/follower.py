"""Follows a partition that another process writes, such as a live broker or a `Log` elsewhere.
Reads only, and takes no lock.

Only whole batches with a right checksum are returned; a batch that is partly written is waited for.
The follower handles rolls, compaction, segments that retention removes, and truncation.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from logdex.errors import CorruptError, LogClosedError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.open_files import OpenFiles
from logdex.io.path_look import StrPath, path_text
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import RecordBatch
from logdex.kafka.directory.partition_files import open_segments, require_partition
from logdex.kafka.directory.recognise import KafkaPath, KafkaPathKind
from logdex.kafka.directory.unfinished import warn_of_partition
from logdex.kafka.read.follow.committed_only import CommittedOnly
from logdex.kafka.read.follow.followed_log import FollowedLog
from logdex.kafka.read.follow.seen_batches import SeenBatch
from logdex.kafka.read.log_read import READ_BYTES, READ_COMMITTED, READ_UNCOMMITTED, check_isolation
from logdex.kafka.read.scan_state import load_producers
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.state.producer_state import ProducerStates
from logdex.primitives.shown import repr_of
from logdex.primitives.wrong_questions import require_counts, require_given, require_seconds

POLL_INTERVAL_S = 0.05
_POLL_RECORDS = 10_000


class LogFollower:
    """Follows the records of the partition directory `path` as they are written, from `offset` on.
    By default it starts at the first record in the files, which may be below the log start offset.
    An offset behind the end of the log is waited for: what is written before it is not returned.

    `poll` returns what is there. The iterator waits for more until `stop` is called from another
    thread. With ``read_committed``, the records of a transaction are returned in log order once it
    is committed; batches after the start of an open transaction wait in memory until it ends.

    If the log is truncated, and what was read is gone or replaced by other records, `offset` is set
    back to the first offset that differs, and the records from there on are returned; records that
    were read ahead and are gone are not. With
    ``read_committed`` that is the first record of an aborted transaction whose end was cut off. Not
    thread-safe except for `stop`.
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
        require_given(offset=offset)
        require_counts(offset=offset)
        require_seconds(poll_interval_s=poll_interval_s)
        self.path = path = path_text(path)
        require_partition(path, env)
        warn_of_partition(path, env)
        self.offset = offset
        """The next offset to read. It skips offsets that retention or compaction has removed."""
        self.poll_interval_s = poll_interval_s
        self._env = env
        self._log = FollowedLog(path, offset, env)
        self._committed = CommittedOnly() if isolation == READ_COMMITTED else None
        self._batches: deque[tuple[RecordBatch, int]] = deque()
        """Batches to return, each with the offset of its first record to return."""
        self._batch: RecordBatch | None = None
        """A batch of which no record was returned yet."""
        self._records: Iterator[Record] | None = None
        """The rest of the records of a batch."""
        self._next_of_records = 0
        self._error: CorruptError | None = None
        self._stopped = threading.Event()
        self._closed = False

    def __repr__(self) -> str:
        return repr_of(self, repr(self.path), f"offset {self.offset}", is_closed=self._closed)

    @property
    def cut_to(self) -> int | None:
        """Where the log was cut, if the last call of `poll` or `look_for_cut` has found that it
        was; 0 if none of the batches that are remembered is there; otherwise None."""
        return self._log.cut_to

    @property
    def last_batch(self) -> SeenBatch | None:
        """The batch of the last record that was returned, or that was given to `remember`."""
        return self._log.returned

    def remember(self, seen: SeenBatch | None) -> SeenBatch | None:
        """Notices from now on if the log is cut before `offset`, also before anything was read.
        `seen` is the last batch before it, by default that of the log. Returns it, None if there is
        none."""
        self._require_open()
        seen = self._log.find_last_before(self.offset) if seen is None else seen
        if seen is not None:
            self._log.remember(seen)
            self._log.returned = seen
        return seen

    def look_for_cut(self) -> None:
        """Looks whether what was read is still in the log. If it was cut, `cut_to` tells where, and
        what was read and not returned yet is read again."""
        self._require_open()
        self._log.forget_cut()
        self._log.look_for_cut()
        if self._log.cut_to is not None and (self._batches or self._records is not None):
            self._log.go_back_to(min(self._next_offset(), self._log.offset))
            self._batches.clear()
            self._records = self._error = None
            self.offset = self._log.offset

    def poll(self, max_records: int = _POLL_RECORDS) -> list[Record]:
        """Returns the next records, at most `max_records` or about 1 MiB; an empty list if there
        are none. It ends with a segment too, so that fewer are not all that there are. With
        ``read_committed`` there may be more behind a transaction that is open.

        Raises `StorageError` if the directory does not exist, and `CorruptError` for bytes that
        stay wrong.
        """
        self._require_open()
        require_given(max_records=max_records)
        require_counts(max_records=max_records)
        self._log.forget_cut()
        if self._batches or self._records is not None:
            self.look_for_cut()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        found: list[Record] = []
        try:
            self._take_records(found, max_records)
            while not found and self._read_batches() and not self._stopped.is_set():
                self._take_records(found, max_records)
        except CorruptError as error:
            self._records = None
            if not found:
                raise
            self._error = error
        finally:
            self.offset = self._next_offset()
        return found

    def _next_offset(self) -> int:
        if self._records is not None:
            return self._next_of_records
        if self._batches:
            batch, begin = self._batches[0]
            return max(batch.base_offset, begin)
        return self._log.offset

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

    def _require_open(self) -> None:
        if self._closed:
            raise LogClosedError("the follower was closed", path=self.path, hint="open another one")

    def close(self) -> None:
        """Stops the iterator and closes the open file."""
        self._closed = True
        self.stop()
        self._log.close()

    def __enter__(self) -> LogFollower:
        self._require_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_batches(self) -> bool:
        """Reads the next batches. Returns whether the log was read any further: none of the batches
        may have a record to return yet, and at the end of a segment there are none."""
        place = self._log.place
        batches, start, restart_below = self._log.read()
        if self._committed is None:
            self._batches.extend((batch, start) for batch in batches)
            return bool(batches) or self._log.place != place
        if restart_below is not None:
            reopened = self._committed.first_reopened(restart_below) if restart_below else None
            if reopened is not None and max(reopened, self._log.first_offset) < start:
                self._log.go_back_to(reopened)
                return True
            self._committed.restart(self._producers_at(start), restart_below)
        self._batches.extend(self._committed.take(batches, start))
        return bool(batches) or self._log.place != place

    def _take_records(self, found: list[Record], count: int) -> None:
        """Adds the next records to `found`. A batch's records are decoded one by one, because a
        small batch may hold very many."""
        size = 0
        while len(found) < count and size < READ_BYTES:
            if self._records is None:
                if not self._batches:
                    return
                self._batch, begin = self._batches.popleft()
                self._records = _records_of(self._batch, begin)
            record = next(self._records, None)
            if record is None:
                self._records = None
                continue
            if self._batch is not None:
                self._log.returned, self._batch = SeenBatch.of(self._batch), None
            found.append(record)
            self._next_of_records = record.offset + 1
            size += len(record.key or b"") + len(record.value or b"")

    def _producers_at(self, offset: int) -> ProducerStates:
        """The producers at `offset`, with the transactions that are open there, including those
        that begin before it."""
        files = OpenFiles(self._env)
        found = open_segments(KafkaPath(self.path, KafkaPathKind.PARTITION), LogConfig(), self._env, files)
        try:
            below = [segment for segment in found if segment.base_offset < offset]
            return load_producers(self.path, below, offset, [], self._env)
        finally:
            for segment in found:
                segment.close()
            files.close()


def _records_of(batch: RecordBatch, begin: int) -> Iterator[Record]:
    if not batch.is_control:
        yield from (record for record in batch.records() if record.offset >= begin)
