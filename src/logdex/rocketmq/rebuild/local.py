"""Rebuilds all ConsumeQueue files and IndexFiles of a store in one pass over its CommitLog, in this
process.

`logdex.rocketmq.rebuild.job` runs the same derivations in tasks on parts of the log, and returns
the same report.
"""

from __future__ import annotations

from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import StrPath, path_text
from logdex.jobs.output import command_line, staged_output
from logdex.jobs.reports import Progress
from logdex.jobs.work_time import work_seconds
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.commit_log.misnamed import require_right_names_in
from logdex.rocketmq.files.broker_lock import broker_lock
from logdex.rocketmq.files.known_topics import KnownTopics
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.geometry.set_aside import settings_by_folder
from logdex.rocketmq.index_file.name_zone import resolve_name_zone
from logdex.rocketmq.rebuild.publish import complete_output
from logdex.rocketmq.rebuild.report import RebuildReport
from logdex.rocketmq.rebuild.source import UncutLog, again_if_cut, behind_unreadable, check_output, settle_unfinished
from logdex.rocketmq.rebuild.space import require_space
from logdex.rocketmq.rebuild.store_writer import StoreWriter
from logdex.rocketmq.scan.scanner import LogEnd, Scanner
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.settings.time_zone import TimeZone


@again_if_cut
def rebuild(
    root: StrPath,
    output: StrPath,
    config: StoreConfig,
    *,
    in_place: bool = False,
    sync: bool = True,
    deleted_topics: bool = False,
    time_zone: str | None = None,
    flags: str = "",
    progress: Progress | None = None,
    env: Env = DEFAULT_ENV,
) -> RebuildReport:
    """Derives ``OUTPUT/consumequeue`` and ``OUTPUT/index`` from ``ROOT/commitlog``, or from ROOT if
    that is one CommitLog file. Writes nothing in ROOT, unless `in_place`.

    The files are staged and published at the end, so a rebuild that was killed can be run again.
    `sync` False omits every fsync. `deleted_topics` also rebuilds the queues of topics that
    ``config/topics.json`` no longer has. IndexFiles are named by times in `time_zone` (see
    `resolve_name_zone`). If the run is killed, `flags` end the command that `verify` prints to run
    it again.
    """
    started = work_seconds()
    root, output = path_text(root), path_text(output)
    check_output(root, output, in_place=in_place, env=env)
    notes = settle_unfinished(root, output, in_place=in_place, sync=sync, env=env)
    uncut = UncutLog(root, config, env)
    log = CommitLog.of_config(root, config, env=env)
    require_right_names_in(root, config, env)
    require_space(output, log, config, env)
    report = RebuildReport("local", assumed=list(config.assumed), notes=notes)
    named = resolve_name_zone(StorePaths(root).index, time_zone, env=env)
    scanner = Scanner(config, behind=behind_unreadable(root, log, config, env), env=env)
    known = KnownTopics.read(root, every=deleted_topics, env=env)
    lock = broker_lock(root, env=env)
    command = command_line("rebuild", env.real_path(root), env.real_path(output), in_place=in_place, flags=flags)
    with staged_output(output, in_place=in_place, lock=lock, command=command, sync=sync, env=env) as staging:
        with uncut:
            end, newest_ms = derive_files(
                *(scanner, log, staging.directory, config, known, named.zone, report),
                sync=sync,
                progress=progress,
                env=env,
            )
            report.bytes = end.offset - log.readable_from()
            if scanner.trimmed:
                report.note_trimmed(scanner.trimmed)
                log.refresh()  # it begins later now
            names = complete_output(root, staging.directory, log, end, newest_ms, config, report, sync=sync, env=env)
        report.kept = staging.publish(names, settings=settings_by_folder(config))
    report.note_end(end, scanner.left_out)
    report.note_unusable(log.unusable.values())
    report.time_zone = named.text
    report.messages = scanner.messages
    report.seconds = work_seconds() - started
    return report


def derive_files(
    scanner: Scanner,
    log: CommitLog,
    directory: str,
    config: StoreConfig,
    known: KnownTopics,
    zone: TimeZone,
    report: RebuildReport,
    *,
    sync: bool,
    env: Env,
    progress: Progress | None = None,
) -> tuple[LogEnd, int]:
    """Writes the ConsumeQueues and IndexFiles of `log` below `directory`, in one pass of `scanner`,
    and counts them in `report`. IndexFiles are named by times in `zone`. Returns the end of the log
    and the greatest store time of a message, 0 without messages."""
    newest_ms = 0
    with StoreWriter(directory, config, env, sync=sync, known=known, zone=zone) as writer:
        for window in scanner.scan(log, log.readable_from()):
            writer.put(window, scanner)
            newest_ms = max(newest_ms, window.newest_ms)
            if progress is not None:
                progress(scanner.messages, window.end_offset - log.readable_from())
        writer.finish(report)
    assert scanner.end is not None  # the scan ran to its end
    return scanner.end, newest_ms
