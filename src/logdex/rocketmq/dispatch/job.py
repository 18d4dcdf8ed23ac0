"""The dispatch of a store's CommitLog into another directory: ConsumeQueues and IndexFiles that
follow the log as it grows.

A step adds what is in the log now. In this process the log is scanned and added to the files window
by window. On a runner, the files of the log that are complete are scanned by tasks, as for a
rebuild, and what they find is added in the order of the log; the newest file is followed in this
process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import pairwise

from logdex.errors import LogInUseError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import StrPath, path_text
from logdex.jobs.dispatching import Ends, Stoppable, new_stage
from logdex.jobs.look_again import LOOKS_MAX
from logdex.jobs.reports import Progress
from logdex.jobs.tasks import Runner, group_parts
from logdex.jobs.work_time import work_seconds
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.commit_log.log_end import LogEnd
from logdex.rocketmq.dispatch.output import DispatchOutput
from logdex.rocketmq.dispatch.report import StoreDispatchReport
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.index_file.name_zone import resolve_name_zone
from logdex.rocketmq.rebuild.job import scan_task
from logdex.rocketmq.rebuild.parts import PartScan, parallel_part_size, reachable_files, scan_part
from logdex.rocketmq.rebuild.source import check_output
from logdex.rocketmq.scan.log_walk import newest_written
from logdex.rocketmq.scan.scan_part import ScanPart
from logdex.rocketmq.settings.store_config import StoreConfig

FLUSH_BYTES = 64 << 20
"""How much of the log is dispatched between two notes in the journal."""
_TASKS_PER_CORE_AT_ONCE = 4
_HINT = "run it again when its broker has recovered: the next run goes on from the journal"


class Dispatcher(Stoppable):
    """Dispatches the log of the store at `root` into the directory `output`, which is created if it
    is missing, from where an earlier run ended. IndexFiles are named by times in `time_zone`.

    Each `step` works until the log's end, or until `stop` is called, which any thread may do.
    `close`, or the end of ``with``, completes the files; after an error they are left to the next
    run, which goes on from the journal. Raises `LogInUseError` if another dispatch writes to
    `output`, and `UsageError` if something else did.
    """

    def __init__(
        self,
        root: StrPath,
        output: StrPath,
        config: StoreConfig,
        *,
        time_zone: str | None = None,
        env: Env = DEFAULT_ENV,
    ) -> None:
        super().__init__()
        root, output = env.real_path(path_text(root)), env.real_path(path_text(output))
        check_output(root, output, in_place=False, may_be_in_place=False, env=env)
        self._root, self._config, self._env = root, config, env
        self._log = CommitLog.of_config(root, config, env=env)
        self._zone = resolve_name_zone(StorePaths(root).index, time_zone, env=env).zone
        self._directory = output
        self._output = self._open()
        self.stage_directory = new_stage(output, env)
        start = self._output.position
        self.report = StoreDispatchReport(path=root, output=output, start_offset=start, end_offset=start)
        self._end: LogEnd | None = None
        self._is_closed = False

    def _open(self) -> DispatchOutput:
        return DispatchOutput(self._root, self._directory, self._log, self._config, self._zone, self._env)

    # -- running ----------------------------------------------------------------------------------
    def step(
        self,
        runner: Runner | None = None,
        *,
        until: Ends | None = None,
        progress: Progress | None = None,
        part_size_bytes: int | None = None,
    ) -> bool:
        """Adds what is in the log now, with its complete files scanned on `runner`. If `until` is
        given, it stops soon behind the physical offset in it. Returns whether there was
        anything."""
        started, report, has_moved = work_seconds(), self.report, False
        end, looks = max(until.values()) if until else None, 0
        while True:
            self._log.refresh()
            self._require_same_log()
            begin = self._output.position
            if runner is not None:
                self._catch_up(runner, part_size_bytes or parallel_part_size(self._log.size_bytes, runner.cores), end)
                report.tasks = runner.tasks
            is_whole = self._advance(end, progress)
            has_moved |= self._output.position != begin
            report.bytes += self._output.position - begin
            if is_whole:
                break
            looks = 0 if self._output.position > begin else looks + 1
            if looks > LOOKS_MAX:
                raise LogInUseError("its log keeps changing where it was read", path=self._root, hint=_HINT)
        report.end_offset = self._output.position
        report.seconds += work_seconds() - started
        return has_moved

    def _require_same_log(self) -> None:
        """Opens the output anew if the log is no longer the one that was dispatched: with what of
        it still holds, or from the start."""
        reason = self._output.mismatch()
        if reason is not None:
            self.report.notes.append(reason)
            self._output.abandon()
            self._output = self._open()

    def _advance(self, until: int | None, progress: Progress | None) -> bool:
        """Adds what is in the log now, window by window. Returns False if it must be looked at
        again: a broker has removed files that were not dispatched, or has cut the log."""
        output, report = self._output, self.report
        before, flushed = output.position, output.position
        self._end = None
        with closing(output.scanner.scan(self._log, max(output.position, self._log.min_offset))) as windows:
            while not self.is_stopped and (until is None or output.position < until):
                window = next(windows, None)
                if output.scanner.trimmed or not output.still_holds():
                    output.scanner.trimmed.clear()
                    return False
                if window is None:
                    self._end = output.scanner.end
                    break
                output.put(window)
                report.messages += window.count
                if progress is not None:
                    progress(report.messages, output.position - report.start_offset)
                if output.position - flushed >= FLUSH_BYTES:
                    output.flush()
                    flushed = output.position
        if output.position != before:
            output.flush()
        return True

    # -- on a runner ------------------------------------------------------------------------------
    def _catch_up(self, runner: Runner, part_size_bytes: int, until: int | None) -> None:
        """Adds the files of the log before the newest one, scanned by tasks, some at a time."""
        directory = self.stage_directory + "/parts"
        groups = group_parts(self._parts(part_size_bytes, until), part_size_bytes)
        at_once = max(_TASKS_PER_CORE_AT_ONCE * runner.cores, 1)
        for first in range(0, len(groups), at_once):
            if self.is_stopped:
                return
            self._remove_stage(directory)
            self._env.make_dirs(directory)
            task = partial(scan_task, directory, self._config, None)
            some = groups[first : first + at_once]
            scans = [scan for done in runner.run("logdex dispatch: scan", task, some) for scan in done]
            is_whole = self._put_all(scans, directory)
            self._output.flush()
            self._remove_stage(directory)
            if not is_whole:
                return

    def _remove_stage(self, directory: str) -> None:
        if self._env.is_dir(directory):
            self._env.remove_tree(directory)

    def _parts(self, part_size_bytes: int, until: int | None) -> Iterator[ScanPart]:
        newest = newest_written(self._log)
        for file in reachable_files(self._log):
            if file.end_offset <= self._output.position or file.start_offset >= newest.start_offset:
                continue
            if until is not None and file.end_offset > until:
                return
            begin = max(self._output.position - file.start_offset, 0)
            count = max(1, round((file.size_bytes - begin) / part_size_bytes))
            bounds = [begin + (file.size_bytes - begin) * number // count for number in range(count + 1)]
            for number, (low, high) in enumerate(pairwise(bounds)):
                yield ScanPart(file, low, high, found=number == 0)

    def _put_all(self, scans: Sequence[PartScan], directory: str) -> bool:
        """Adds what tasks have scanned, in the order of the log. Where the parts of a file do not
        join up, the rest of them is scanned again. Returns False where the log ends or is damaged,
        or a broker has removed a file or cut the log."""
        files: dict[CommitLogFile, list[PartScan]] = {}
        for scan in scans:
            files.setdefault(scan.part.file, []).append(scan)
        for file, some in files.items():
            by_first = {scan.first: scan for scan in some if scan.first >= 0}
            stop = some[-1].part.stop
            at = max(self._output.position - file.start_offset, 0)
            while 0 <= at < stop:
                scan = by_first.get(at) or self._scan_again(ScanPart(file, at, stop, found=True), directory)
                if scan.was_trimmed or not self._output.still_holds():
                    return False
                self._output.put_stage(scan)
                self.report.messages += scan.messages
                if scan.end is not None:
                    return False
                at = scan.next
            if at < 0:
                self._output.skip_to(file.end_offset)
        return True

    def _scan_again(self, part: ScanPart, directory: str) -> PartScan:
        return scan_part(part, self._config, f"{directory}/again-{part.begin}", env=self._env)

    # -- the end ----------------------------------------------------------------------------------
    def close(self) -> None:
        """Completes all files. A log that does not end cleanly is a loss."""
        if self._is_closed:
            return
        self._is_closed = True
        self._env.remove_tree(self.stage_directory)
        self._output.close()
        end = self._end
        if end is not None and not end.is_clean:
            self.report.losses.append(end.description)

    def __enter__(self) -> Dispatcher:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._output.abandon()
