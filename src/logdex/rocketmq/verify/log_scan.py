"""Reads all messages of a log, including those after damage, and checks the log itself.

For the engine a log ends at the first bad message. `LogPass` reports that message and continues
after it if more messages follow.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from logdex.errors import TruncatedError, UnreadableError, VanishedError
from logdex.io.env import Env
from logdex.io.mapped.mapping import take_unreadable
from logdex.io.mapped.partly_loaded import load
from logdex.layout.rocketmq import BLANK, BLANK_MAGIC, MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.commit_log.log_end import EndKind, LogEnd, next_file_or_end, unreadable_end, zeros_at
from logdex.rocketmq.scan.log_bytes import LogBytes, data_end_of
from logdex.rocketmq.scan.resume import Named, find_behind
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify.at_start import AtStart
from logdex.rocketmq.verify.checks import CUT_AT_START, DAMAGE_TEXTS, RESTORE, Collector, check_of
from logdex.rocketmq.verify.damage import OFFSET_MAX, Damage
from logdex.rocketmq.verify.filler import blank_of
from logdex.rocketmq.verify.misnamed import well_named
from logdex.rocketmq.verify.proven.runs import CUT_BYTES, ProvenRun, Step, Stepping
from logdex.rocketmq.verify.stop import Stop

_WINDOW_MESSAGES = 65_536
"""More than in other scans, because each window costs some calls per queue and IndexFile."""


class LogPass:
    """One pass over a log. `damage` and `end_offset` grow during the pass. Not thread-safe."""

    def __init__(
        self,
        log: CommitLog,
        config: StoreConfig,
        out: Collector,
        env: Env,
        named: Named | None = None,
        at_start: AtStart | None = None,
        *,
        cut_bytes: int = CUT_BYTES,
        runs: Sequence[ProvenRun] = (),
    ) -> None:
        self.log = log
        self.damage = Damage()
        self.end_offset = log.min_offset
        """The offset after the last readable message or filler; after the pass the offset of
        `end`."""
        self.end: LogEnd | None = None
        """The end of the log after its last readable message; set when the pass is complete."""
        self.scanner = Scanner(config, env=env, window_messages=_WINDOW_MESSAGES, unreadable_is_damage=True)
        self.steps = Stepping(self.scanner, cut_bytes, runs)
        self._config = config
        self._out = out
        self._env = env
        self._named = named
        self._at_start = at_start
        self._is_growing = False
        """Whether a broker writes the log: the pass ends where the log ended at the start."""
        self._pending: Stop | None = None
        self._elsewhere: frozenset[int] = frozenset()
        """Where the messages of files with wrong names lie."""

    def windows(self) -> Iterator[Step]:
        """Yields windows of all readable messages, and the runs that are stepped over."""
        previous: CommitLogFile | None = None
        files, self._elsewhere = well_named(self.log, self._out, self._env)
        self._add_elsewhere(0, files[0].start_offset if files else OFFSET_MAX)
        for file in files:
            error = self.log.unusable.get(file.start_offset)
            self._out.files += error is None
            if error is None:
                self._check_size(file)
            if previous is not None:
                self._check_place(previous, file)
            previous = file
            if error is not None:
                self._out.find_error("unreadable", error, self._out.restore_log())
                self.end = self.end or unreadable_end(file, 0, error)
                continue
            try:
                yield from self._file(file)
            except VanishedError:
                if not self._was_removed(file):
                    raise
                if self._is_new(file.end_offset):
                    self._end_before_growth(file)
            if self._is_growing:
                break
        if self.end is None:  # all files behind have wrong names
            self.end = zeros_at(files[-1], files[-1].size_bytes) if files else zeros_at(self.log.files[0], 0)
        self._end()

    def _add_elsewhere(self, start: int, end: int) -> None:
        """Adds to the damage what the files with wrong names hold of a range."""
        size = self._config.mapped_file_size_commit_log
        for stated in sorted(each for each in self._elsewhere if start <= each < end):
            self.damage.add(stated, stated + size)

    def _was_removed(self, file: CommitLogFile) -> bool:
        """Whether a broker has removed a file meanwhile; notes it then."""
        if not self.log.was_trimmed(file.start_offset):
            return False
        self._out.info("log-file-removed", file.path, "the broker has removed this file: it is not checked")
        at = max(file.start_offset, self.end_offset)
        self.damage.add(at, file.end_offset)
        if file is self.log.files[-1]:
            self.end = LogEnd(EndKind.END_OF_FILES, at, file.path, at - file.start_offset, "the broker has removed it")
        return True

    def _check_size(self, file: CommitLogFile) -> None:
        size = self._config.mapped_file_size_commit_log
        is_last = file is self.log.files[-1]
        if file.size_bytes != size and not (is_last and not file.size_bytes):
            self._out.find(
                "commit-log-file-size",
                file.path,
                file.size_bytes,
                "a CommitLog file of another size: no broker loads it",
                expected=size,
                found=file.size_bytes,
                mend=self._out.restore_log("; if all files are so long, state --mapped-file-size-commit-log"),
            )

    def _check_place(self, previous: CommitLogFile, file: CommitLogFile) -> None:
        size = self._config.mapped_file_size_commit_log
        expected = begin = previous.start_offset + size
        while expected in self._elsewhere:
            expected += size
        if file.start_offset > expected:
            missing = f"{self.log.directory}/{expected:020d}"
            self._out.find(
                "commit-log-gap",
                missing,
                0,
                "a CommitLog file is missing, the log goes on behind it",
                expected=f"{expected:020d}",
                found=f"{file.start_offset:020d}",
                mend=self._out.restore_log(),
            )
        if file.start_offset > begin:
            self._settle(begin)
            self.damage.add(begin, file.start_offset)
        elif previous.size_bytes < self._config.mapped_file_size_commit_log and self._pending is None:
            self.damage.add(previous.end_offset, file.start_offset)

    def _file(self, file: CommitLogFile) -> Iterator[Step]:
        start: int | None = 0
        while start is not None:
            position = start
            scanning = self._scan(file, start)
            while True:
                try:
                    window = next(scanning)
                except StopIteration as done:
                    stop: LogEnd | None = done.value
                    break
                if self._is_new(window.begin_offset):
                    scanning.close()
                    stop = None
                    break
                self._settle(file.start_offset + start)
                self.end_offset = window.end_offset
                position = self.end_offset - file.start_offset
                yield window
            at = file.start_offset + position if stop is None else stop.offset
            if self._is_growing or self._is_new(at, wait=stop is not None and not stop.is_clean):
                break
            if stop is not None and self._is_harmed_filler(file, stop):
                stop = None
            elif stop is None:
                self._check_filler(file, position)
            start = None if stop is None else self._behind_stop(file, stop)
        if self._is_growing:
            self._end_before_growth(file)
            return
        end = next_file_or_end(self.log, file, position, stop, unreadable_is_damage=True)
        if isinstance(end, LogEnd) and self.end is None:
            self.end = end

    def _scan(self, file: CommitLogFile, start: int) -> Generator[Step, None, LogEnd | None]:
        """Scans a file from a position on. It stops where the log ended when the check began, if
        more was written since."""
        end_offset = None if self._at_start is None else self._at_start.end_offset
        if self._at_start is not None and end_offset is not None and file.start_offset <= end_offset < file.end_offset:
            limit = end_offset - file.start_offset
            if start < limit:
                stop = yield from self.steps.scan_file(file, start, limit)
                if stop is not None or self.scanner.stopped_at < limit:
                    return stop
                start = self.scanner.stopped_at
            if start == limit and self._is_new(end_offset):
                return None
        return (yield from self.steps.scan_file(file, start))

    def _is_new(self, offset: int, *, wait: bool = False) -> bool:
        """Whether what is at a physical offset is none of the log that is checked, because a broker
        has written there since the check began. The pass then ends. It asks after it has looked at
        the place and before it judges what it saw, with `wait` where a broker may be in the middle
        of a message."""
        start = self._at_start
        if start is None or start.end_offset is None or offset < start.end_offset:
            return False
        self._is_growing = self._is_growing or start.has_grown(self.log, wait=wait)
        return self._is_growing

    def _end_before_growth(self, file: CommitLogFile) -> None:
        """Ends the pass where the log ended when the check began, or a little behind. That may be
        in a file before this one, which a broker allocated in advance."""
        stop, self._pending = self._pending, None
        file = file if stop is None else stop.file
        at = max(self.end_offset, file.start_offset)
        text = "a broker is writing: what it wrote meanwhile is not checked"
        self.end = LogEnd(EndKind.ZEROS, at, file.path, at - file.start_offset, text)
        self._out.info("log-growing", file.path, text)

    def _check_filler(self, file: CommitLogFile, position: int) -> None:
        """Checks the filler of a file that was read to its end."""
        if file.size_bytes - position < BLANK.size_bytes:
            if file is self.log.files[-1] and 0 < file.size_bytes == self._config.mapped_file_size_commit_log:
                self._out.find(
                    "filler",
                    file.path,
                    position,
                    "the file ends behind a message: it was cut, and its size is not that of the broker's files",
                    expected="a blank",
                    found="the end of the file",
                    mend=f"{RESTORE}; state --mapped-file-size-commit-log",
                )
            return
        self._settle(file.start_offset + position)
        self.end_offset = file.end_offset
        with self._env.open_read(file.path) as opened:
            size, _ = blank_of(file, position, opened.read_at(position, BLANK.size_bytes))
        if size != file.size_bytes - position:
            self._out.find(
                "filler",
                file.path,
                position,
                "the blank's size does not reach the end of the file",
                expected=file.size_bytes - position,
                found=size,
                mend="nothing: no broker reads this size",
            )

    def _behind_stop(self, file: CommitLogFile, end: LogEnd) -> int | None:
        """Returns the position in the file at which to continue after a stop. None if no message
        follows in this file; the stop is then the log's end unless the next file continues the
        log."""
        with self._env.map_read(file.path, partly=True) as mapped:
            load(mapped.array, end.position)
            data = LogBytes(mapped.array, file.start_offset, data_end_of(file.path, end.position, self._env))
            following = find_behind(data, end.position, self._named)
            noted = None if following is not None else Stop.of(file, end, data)
            take_unreadable(mapped.array)  # the scan that stopped has reported it
        is_odd = following is not None or (noted is not None and noted.stray is not None)
        if self._is_new(end.offset, wait=is_odd or not end.is_clean):
            return None
        if following is None:
            self._note_stop(noted)
            return None
        self._settle(end.offset)
        self._report_inside(Stop(end, file, None, False))
        self.damage.add(end.offset, file.start_offset + following)
        return following

    def _is_harmed_filler(self, file: CommitLogFile, end: LogEnd) -> bool:
        """Whether the file was read up to a filler with a wrong magic; reports it."""
        at, left = end.position, file.size_bytes - end.position
        if left < BLANK.size_bytes or file.size_bytes != self._config.mapped_file_size_commit_log:
            return False
        try:
            size, magic = blank_of(file, at, self.log.read(end.offset, BLANK.size_bytes))
        except (TruncatedError, UnreadableError):  # the file has become shorter, or is unreadable there
            return False
        if size != left or magic in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2):
            return False
        self._out.find(
            "filler",
            file.path,
            at + 4,
            "the blank's magic is wrong: for a broker the log ends here",
            expected=f"{BLANK_MAGIC:08x}",
            found=f"{magic:08x}",
            mend=self._out.restore_log(),
        )
        self._settle(end.offset)
        self.end_offset = file.end_offset
        return True

    def _note_stop(self, stop: Stop | None) -> None:
        """Nothing can be read behind a stop in this file: the log's end, unless a file goes on."""
        assert stop is not None  # it was made because nothing follows
        if self._pending is None:
            self._pending = stop
        elif stop.end.is_unreadable:
            self._report_message(stop.end, self._out.restore_log())
        elif stop.stray is not None and self._pending.stray is None:
            self._find_stray(stop.file.path, stop.stray, 0)

    def _find_stray(self, path: str, position: int, zeros_from: int) -> None:
        self._out.find(
            "commit-log-stray-bytes",
            path,
            position,
            "not zero, behind the end of the log",
            expected=f"zeros from byte {zeros_from} on",
            found="other bytes",
            mend=CUT_AT_START,
        )

    def _settle(self, offset: int) -> None:
        """Notes that the log continues at `offset`, so that an earlier stop was not its end."""
        stop, self._pending, self.end = self._pending, None, None
        if stop is not None:
            self._report_inside(stop)
            self.damage.add(stop.end.offset, offset)

    def _report_inside(self, stop: Stop) -> None:
        """Reports a stop with messages after it."""
        end = stop.end
        if end.is_zeros:
            self._out.find(
                "commit-log-hole",
                end.path,
                end.position,
                "zeros where a message must be, messages follow",
                expected="a message",
                found="zeros",
                mend=self._out.restore_log(),
            )
        elif stop.file.size_bytes >= self._config.mapped_file_size_commit_log or end.kind is not EndKind.TORN:
            note = "" if end.is_unreadable else ": a broker that recovers cuts the log here"
            self._report_message(end, self._out.restore_log(note))

    def _report_message(self, end: LogEnd, mend: str) -> None:
        error = end.error
        assert error is not None  # every stop except zeros has an error
        check = check_of(error)
        self._out.find(
            check, end.path, error.position, DAMAGE_TEXTS[check], expected=error.expected, found=error.found, mend=mend
        )

    def _end(self) -> None:
        assert self.end is not None  # the last file sets it
        self.end_offset = self.end.offset
        stop, last = self._pending, self.log.files[-1]
        if last.start_offset in self.log.unusable and (stop is None or stop.end.is_zeros):
            self.damage.add(last.start_offset, OFFSET_MAX)
        if stop is None:
            self._add_elsewhere(self.end_offset, OFFSET_MAX)
            return
        end = stop.end
        if end.is_zeros:
            if stop.stray is not None:
                self._find_stray(end.path, stop.stray, end.position)
            if self.end.is_unreadable:
                self.damage.add(self.end_offset, OFFSET_MAX)
            else:
                self._add_elsewhere(self.end_offset, OFFSET_MAX)
            return
        behind = last.start_offset + self._config.mapped_file_size_commit_log  # a lost file is none of this damage
        self.damage.add(end.offset, behind)
        self._add_elsewhere(behind, OFFSET_MAX)
        if stop.file.size_bytes < self._config.mapped_file_size_commit_log and stop.is_cut:
            return  # the file's size is reported instead
        if stop.is_cut:
            self._out.find(
                "torn-tail",
                end.path,
                end.position,
                "the log ends inside a message: it was cut off or not written to its end",
                expected="a whole message, or zeros",
                found=f"a part of one at offset {end.offset}",
                mend=CUT_AT_START,
            )
        else:
            self._report_message(end, self._out.restore_log() if end.is_unreadable else CUT_AT_START)
