"""`LogReader`: reads a partition on from where a reader of that name stopped."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from logdex.errors import LogClosedError, OffsetOutOfRangeError, UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import path_text
from logdex.kafka.batch.record import Record
from logdex.kafka.directory.partition_files import require_partition
from logdex.kafka.files.reader_positions import (
    BatchMark,
    StoredPosition,
    checked_name,
    read_stored,
    reader_lock,
    write_position,
)
from logdex.kafka.read.follow.follower import LogFollower
from logdex.kafka.read.follow.seen_batches import SeenBatch
from logdex.kafka.read.log_read import READ_UNCOMMITTED
from logdex.kafka.readers.log_start import LogStart
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.primitives.shown import repr_of
from logdex.primitives.wrong_questions import require_counts, require_given, require_poll

_PAUSE_S = 0.01


class LogReader:
    """A named reader of the partition directory `path`: `poll` returns records, `commit` marks all
    that were returned as read. `Log.reader` opens one for a `Log`, which closes it with itself.

    At least once: records that were not committed come again when the reader is opened the next
    time. A name is open once at a time (`LogInUseError`); readers of other names do not know of
    each other. Another process may write the partition. A reader that has committed nothing starts
    at `start`. One whose next record was deleted goes on at the log start offset. If the log was
    cut before `position`, `poll` and `commit` raise `OffsetOutOfRangeError` until `seek`, also if
    it has grown past `position` since. With ``read_committed`` the records of aborted transactions
    are left out. Thread-safe.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        name: str,
        *,
        start: int = 0,
        isolation: str = READ_UNCOMMITTED,
        before_commit: Callable[[], None] | None = None,
        env: Env = DEFAULT_ENV,
    ) -> None:
        self.path, self.name = path_text(path).rstrip("/"), checked_name(name)
        require_given(start=start)
        require_counts(start=start)
        self._before_commit, self._env = before_commit, env
        self._guard = threading.RLock()
        self._resources = ExitStack()
        if not env.is_dir(self.path):
            raise UsageError(f"{self.path} is no directory of a partition", hint="give TOPIC-N")
        require_partition(self.path, env)
        with ExitStack() as stack:
            stack.enter_context(reader_lock(self.path, name, env=env))
            self._stored = read_stored(self.path, name, env=env)
            self._isolation = isolation
            self._start_offset = LogStart(self.path, env)
            self._position, self._beyond = self._place(start if self._stored is None else self._stored.offset)
            self._follower = self._follow(self._position, None if self._stored is None else self._stored.batch)
            self._resources = stack.pop_all()
        self._closed = False

    def __repr__(self) -> str:
        return repr_of(self, repr(self.path), repr(self.name), f"position {self.position}", is_closed=self._closed)

    @property
    def position(self) -> int:
        """The offset behind the last record that `poll` returned."""
        return self._position

    @property
    def committed(self) -> int | None:
        """The committed offset; None if nothing was committed."""
        return None if self._stored is None else self._stored.offset

    def poll(self, max_records: int = 500, timeout: float = 0.0) -> list[Record]:
        """Returns the next records, at most `max_records`, control records left out. It ends with a
        segment too, so that fewer are not all that there are. Waits up to `timeout` seconds if
        there are none. Raises what `LogFollower.poll` raises, and `OffsetOutOfRangeError` if the
        log was truncated before `position`: `seek` goes on elsewhere."""
        require_poll("max_records", max_records, timeout)
        until = time.monotonic() + timeout
        while True:
            with self._guard:
                found = self._take(max_records)
            left = until - time.monotonic()
            if found or left <= 0:
                return found
            time.sleep(min(left, _PAUSE_S))

    def _place(self, offset: int) -> tuple[int, OffsetOutOfRangeError | None]:
        """Where to read on for an offset, and the error for one behind the log's end."""
        with PartitionSnapshot(self.path, env=self._env) as snapshot:
            start = snapshot.log_start_offset
            end = start if offset <= start else snapshot.log_end_offset
        error = OffsetOutOfRangeError(offset, path=self.path, log_start_offset=start, log_end_offset=end)
        return max(offset, start), error if offset > end else None

    def _follow(self, offset: int, last: BatchMark | None = None) -> LogFollower:
        """A follower from `offset` on. `last` is the batch before it if that is known."""
        self._known_start = self._start_offset.now()
        follower = LogFollower(self.path, offset, isolation=self._isolation, env=self._env)
        follower.remember(None if last is None else SeenBatch(*last))
        return follower

    def _take(self, count: int) -> list[Record]:
        self._require_open()
        self._look_at_start()
        if self._known_start > self._position:
            self._go_on_at(self._known_start)
        found = self._follower.poll(count)
        self._require_not_cut(self._follower.cut_to)
        if not found and self._follower.last_batch is None and self._position > self._known_start:
            _, self._beyond = self._place(self._position)  # no batch is known by which a cut is told
            self._require_not_cut(None)
        if found:
            # Not the follower's offset, which is behind the records of transactions still open.
            self._position = found[-1].offset + 1
        return found

    def _look_at_start(self) -> None:
        """Reads the log start offset. It goes back only if the log begins anew."""
        known, self._known_start = self._known_start, self._start_offset.now()
        self._require_not_cut(self._known_start if self._known_start < known else None)

    def _require_not_cut(self, cut: int | None) -> None:
        """Raises if the log was cut at an offset before `position`, now or earlier."""
        if self._beyond is None and cut is not None and cut < self._position:
            self._beyond = self._cut_error(cut)
        if self._beyond is not None:
            raise self._beyond

    def _cut_error(self, cut: int) -> OffsetOutOfRangeError:
        _, error = self._place(self._position)
        start = self._known_start
        if cut > start:
            hint = f"the log was cut at {cut}, and records from there on are new: seek({cut}) reads them"
        else:
            hint = f"the log was cut before it, where is not known: seek({start}) reads all that is there"
            cut = start if error is None else error.log_end_offset
        return OffsetOutOfRangeError(
            self._position, path=self.path, log_start_offset=start, log_end_offset=cut, hint=hint
        )

    def commit(self) -> None:
        """Marks all records that `poll` has returned as read, on disk when this returns. Raises
        `OffsetOutOfRangeError` if the log was truncated before `position`."""
        with self._guard:
            self._require_open()
            if self._stored != StoredPosition(self._position, self._follower.last_batch):
                self._look_at_start()
                self._follower.look_for_cut()
                self._require_not_cut(self._follower.cut_to)
                if self._before_commit is not None:
                    self._before_commit()
                stored = StoredPosition(self._position, self._follower.last_batch)
                write_position(self.path, self.name, stored.offset, batch=stored.batch, env=self._env)
                self._stored = stored

    def seek(self, offset: int) -> None:
        """Goes on at an offset. A commit then commits that. Raises `OffsetOutOfRangeError` for one
        behind the log's end, and `UsageError` for a negative one."""
        with self._guard:
            self._require_open()
            require_given(offset=offset)
            require_counts(offset=offset)
            offset, beyond = self._place(offset)
            if beyond is not None:
                raise beyond
            self._go_on_at(offset)
            self._beyond = None

    def _go_on_at(self, offset: int) -> None:
        follower = self._follow(offset)
        self._follower.close()
        self._follower, self._position = follower, offset

    def _require_open(self) -> None:
        if self._closed:
            hint = "open it again; a Log that is closed closes its readers"
            raise LogClosedError("the reader was closed", path=self.path, hint=hint)

    def close(self) -> None:
        """Closes the reader. Commits nothing."""
        with self._guard:
            if not self._closed:
                self._closed = True
                self._follower.close()
                self._resources.close()

    def __enter__(self) -> LogReader:
        self._require_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
