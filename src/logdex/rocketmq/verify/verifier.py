"""`verify` for RocketMQ: one pass over the log, with the queues and IndexFiles read beside it. It
reads everything and writes nothing.

The expected content of queues and IndexFiles is computed by the scan kernel, `derive_consume_queue`
and `derive_index` from the log's messages. Memory depends on the window and on maxHashSlotNum (4
bytes per slot), not on the size of the store.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import StrPath
from logdex.jobs import look_again
from logdex.jobs.findings import FINDINGS_MAX, Finding, VerifyReport
from logdex.jobs.journal import find_unfinished, report_unfinished
from logdex.jobs.reports import Progress
from logdex.jobs.tasks import Count, LocalRunner, Runner, progress_of
from logdex.jobs.work_time import work_seconds
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.named_messages import NamedMessages
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify.at_start import AtStart, checkpoint_bytes
from logdex.rocketmq.verify.checks import Collector
from logdex.rocketmq.verify.damage import OFFSET_MAX
from logdex.rocketmq.verify.index.index_set import IndexSet
from logdex.rocketmq.verify.log_scan import LogPass
from logdex.rocketmq.verify.messages import check_messages
from logdex.rocketmq.verify.proven.prove import prove
from logdex.rocketmq.verify.proven.runs import CUT_BYTES, ProvenRun, Step
from logdex.rocketmq.verify.queues.queue_set import QueueSet
from logdex.rocketmq.verify.small_files import check_abort_and_lock, check_checkpoint, check_config, check_directories

BETWEEN_LOOKS = 2.5
"""The pause between two looks at a store to which a broker writes."""
_COMPARED_LOOKS_MAX = 4
"""How often such a store is looked at until there are two looks, one after the other, that list all
of their findings."""


def verify(
    root: StrPath,
    config: StoreConfig,
    *,
    env: Env = DEFAULT_ENV,
    progress: Progress | None = None,
    max_findings: int = FINDINGS_MAX,
    checks: Collection[str] | None = None,
    flags: str = "",
    runner: Runner | None = None,
    cut_bytes: int = CUT_BYTES,
) -> VerifyReport:
    """Checks the store at `root`, or one CommitLog file by itself, and returns the report. `checks`
    (keys of `CHECKS`) limits which checks are reported, `max_findings` how many findings. The
    commands that repair what is found end with `flags`.

    With several cores, tasks on `runner` first prove what they can of parts of the log. One more
    task then checks all, and steps over what was proven, so that the report is the same with any
    number of tasks. Parts begin at multiples of `cut_bytes`.

    Raises `MissingFileError` or `NotAStoreError` if the log cannot be opened, `UsageError` for an
    unknown check, and `StorageError` if the system refuses to read a file. Damage is reported and
    never raised.

    If a broker starts on the store meanwhile, the store is checked again. If a broker writes to it,
    a finding counts only if a second look has it as well.
    """
    started = work_seconds()
    runner = LocalRunner(progress) if runner is None else runner
    root, wanted = str(root).rstrip("/") or "/", None if checks is None else tuple(checks)
    task = _Task(root, config, max(max_findings, FINDINGS_MAX), wanted, flags, cut_bytes)
    if runner.cores > 1:
        Collector(root, max_findings, wanted)  # so that an unknown check is refused at once
        before = _Before.of(root, env)
        task = task._replace(before=before, runs=tuple(prove(runner, root, config, cut_bytes, env)))
    [report] = runner.run("verify", partial(_check_store, env), [task])
    report.list_at_most(max_findings)
    report.seconds = work_seconds() - started
    return report


_Identity = tuple[str, str, int, int | None]
"""A finding's check, path and position, and the physical offset of the message it is about."""


class _Before(NamedTuple):
    """Whether a store was not shut down cleanly, and the bytes of its checkpoint."""

    is_unclean: bool
    checkpoint: bytes | None

    @staticmethod
    def of(root: str, env: Env) -> _Before:
        return _Before(env.exists(StorePaths(root).abort), checkpoint_bytes(root, env))

    def still_holds(self, now: _Before) -> bool:
        """Whether no broker has started since."""
        return self == now or (self.is_unclean and now.is_unclean)


class _Task(NamedTuple):
    root: str
    config: StoreConfig
    max_findings: int
    checks: tuple[str, ...] | None
    flags: str
    cut_bytes: int
    before: _Before | None = None
    runs: tuple[ProvenRun, ...] = ()
    """What was proven since `before`."""


def _check_store(env: Env, task: _Task, attempt: str, count: Count) -> VerifyReport:
    """Checks a store, again if a broker starts on it or writes to it."""
    root, runs = task.root, task.runs
    progress = progress_of(
        count, sum(run.messages for run in runs), sum(run.end_offset - run.begin_offset for run in runs)
    )
    first: dict[_Identity, Finding] | None = None
    is_whole, looks = False, 0
    for _ in range(look_again.LOOKS_MAX):
        out = Collector(root, task.max_findings, task.checks, task.flags)
        checkpoint = checkpoint_bytes(root, env)
        before = _Before(check_abort_and_lock(root, out, env), checkpoint)
        if task.before is not None and not task.before.still_holds(before):
            runs = ()
        report, has_changed = _look(task._replace(runs=runs), out, env, progress, is_unclean=before.is_unclean)
        runs = ()  # what is looked at again is looked at as a whole
        if not before.is_unclean and _Before.of(root, env) != before:
            continue  # a broker has started, and has perhaps ended again
        found = _by_identity(report, out)
        looks += 1
        are_comparable = is_whole and not report.truncated
        if has_changed and not report.is_sound and not are_comparable and looks < _COMPARED_LOOKS_MAX:
            first, is_whole = found, not report.truncated
            look_again.pause(BETWEEN_LOOKS)
            continue
        if first is not None and are_comparable:
            report.findings = [finding for identity, finding in found.items() if identity in first]
        break
    return report


def _compare(step: Step, queues: QueueSet, index: IndexSet, scanner: Scanner) -> None:
    """Compares what was derived from messages with them."""
    if isinstance(step, ProvenRun):
        queues.put_proven(step, scanner.table)
        index.put_proven(step)
        return
    queues.put(step, scanner)
    index.put(step)
    scanner.index_tags(index.tags_in_index)


def _by_identity(report: VerifyReport, out: Collector) -> dict[_Identity, Finding]:
    """Returns the findings of a look by what makes them the same in another look. A broker that
    creates a topic again writes other messages' entries to the same places."""
    messages = out.compared_with()
    return {
        (each.check, each.path, each.position, messages.get((each.path, each.position))): each
        for each in report.findings
    }


def _look(task: _Task, out: Collector, env: Env, progress: Progress, *, is_unclean: bool) -> tuple[VerifyReport, bool]:
    """Checks the store as it is, running or not. Returns the report, and whether a broker has
    written to the store meanwhile."""
    root, config = task.root, task.config
    at_start = AtStart(root, env, is_unclean=is_unclean)
    log = CommitLog.of_config(root, config, env=env)
    at_start.find_end(log, config)
    report_unfinished(find_unfinished([root], env), out)
    if not log.is_one_file:
        check_directories(root, out, env)
    named = NamedMessages(root, config, env)
    scan = LogPass(
        *(log, config, out, env, None if log.is_one_file else named, at_start), cut_bytes=task.cut_bytes, runs=task.runs
    )
    scanner = scan.scanner
    queues = QueueSet(root, config, log, scan.damage, out, env, is_unclean=is_unclean)
    index = IndexSet(root, config, log, scan.damage, out, env, at_start)
    newest_ms = 0
    if not log.is_one_file:
        # It does not refer to the pass: the columns would stay until Python collects the cycle.
        scan.steps.accepts = lambda run: index.fits(run) and queues.fits(run, scanner.table)
    try:
        for step in scan.windows():
            if isinstance(step, Window):
                check_messages(step, out)
            if not log.is_one_file:
                _compare(step, queues, index, scanner)
            newest_ms = max(newest_ms, step.newest_ms)
            progress(scanner.messages, scan.end_offset - log.min_offset)
        if log.is_one_file:
            out.info("one-file", root, "one CommitLog file: checked against itself, not against queues and IndexFiles")
        else:
            queues.finish(scan.end_offset, scanner.messages)
            index.finish(scan.end_offset)
        has_changed = at_start.has_changed(log)
    finally:
        queues.close()
        index.close()
        named.close()
        log.close()
    known_end = scan.end_offset
    if scan.damage:  # lost messages may have been newer than all others
        newest_ms = known_end = OFFSET_MAX
    elif log.min_offset:  # so may expired ones, if the clock went back
        newest_ms = OFFSET_MAX
    is_missed = scanner.messages > 0 and not log.is_one_file
    check_checkpoint(root, newest_ms, known_end, out, env, is_missed=is_missed, data=at_start.checkpoint)
    check_config(root, out, env, is_unclean=is_unclean, is_missed=is_missed)
    size = scan.end_offset - log.min_offset
    return out.report(messages=scanner.messages, size_bytes=size, seconds=0), has_changed
