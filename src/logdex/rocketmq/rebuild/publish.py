"""Completes the output of a rebuild: gathers what its tasks wrote, and adds what is not derived."""

from __future__ import annotations

from dataclasses import dataclass

from logdex.io.env import Env
from logdex.jobs.publication import Names
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.commit_log.log_end import LogEnd
from logdex.rocketmq.files.store_files import CHECKPOINT_FILE, CONSUME_QUEUE_DIR, INDEX_DIR, queue_folder
from logdex.rocketmq.index_file.derive import index_file_names
from logdex.rocketmq.rebuild.carry_over import carry_over_queues
from logdex.rocketmq.rebuild.crashed import add_checkpoint
from logdex.rocketmq.rebuild.parts import WholeLog
from logdex.rocketmq.rebuild.report import RebuildReport
from logdex.rocketmq.rebuild.source import PUBLISHED
from logdex.rocketmq.rebuild.write import IndexDone, LeftOut, QueuesDone
from logdex.rocketmq.recognise.lost_end import losses_and_notes
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.settings.time_zone import TimeZone


def complete_output(
    root: str,
    directory: str,
    log: CommitLog,
    end: LogEnd,
    newest_ms: int,
    config: StoreConfig,
    report: RebuildReport,
    *,
    sync: bool,
    env: Env,
) -> Names:
    """Adds to the files in `directory` what must be published with them, and to the report what
    tells of messages behind the `end` of the log, whose newest message was stored at `newest_ms`:
    if the files are published in the store, nothing tells of them any more. Returns the names to
    publish: the checkpoint comes last, because it vouches for the IndexFiles."""
    if not log.is_one_file:
        named = 0 if end.is_clean else log.end_offset  # the report names the damage
        losses, notes = losses_and_notes(root, end.offset, newest_ms, config, env, named=named)
        report.losses += losses
        report.notes += notes
    carry_over_queues(root, directory, log.readable_from(), config, report, sync=sync, env=env)
    report.checkpoint = add_checkpoint(root, directory, sync=sync, env=env)
    return Names(PUBLISHED, last=(CHECKPOINT_FILE,) if report.checkpoint else ())


@dataclass(slots=True)
class Outputs:
    """What the tasks of a rebuild wrote."""

    index: list[IndexDone]
    queues: list[QueuesDone]
    left_out: LeftOut

    def assemble(self, directory: str, zone: TimeZone, env: Env) -> None:
        """Moves all files to their final names in ``directory/consumequeue`` and
        ``directory/index``. IndexFiles are named by times in `zone`."""
        env.make_dirs(f"{directory}/{CONSUME_QUEUE_DIR}")
        env.make_dirs(f"{directory}/{INDEX_DIR}")
        done = sorted(self.index, key=lambda file: file.number)
        names = index_file_names((file.first_store_timestamp_ms for file in done), zone)
        for file, name in zip(done, names, strict=True):
            env.rename(file.path, f"{directory}/{INDEX_DIR}/{name}")
        topics: set[str] = set()
        for part in self.queues:
            for folder, report in part.queues.items():
                if report.entries == 0:
                    continue  # all entries were implausible, so no file was written
                topic = folder.rpartition("/")[0]
                if topic not in topics:
                    topics.add(topic)
                    env.make_dirs(f"{directory}/{CONSUME_QUEUE_DIR}/{topic}")
                env.rename(f"{part.directory}/{folder}", f"{directory}/{CONSUME_QUEUE_DIR}/{folder}")

    def note(self, log: WholeLog, config: StoreConfig, report: RebuildReport) -> None:
        """Fills in the report as a rebuild in one process does, with the queues in the order of
        their first entries."""
        report.index_files = len(self.index)
        report.index_entries = sum(file.entries for file in self.index)
        report.files += report.index_files + sum(part.files for part in self.queues)
        found = {folder: queue for part in self.queues for folder, queue in part.queues.items()}
        report.note_delay_levels(found, config)
        for scan in log.scans:
            for name in scan.queues:
                folder = queue_folder(*name)
                if folder in found:
                    report.note_queue(folder, found.pop(folder))
        for (topic, _), entries in self.left_out.deleted.items():
            report.note_deleted(topic, entries)
        for (topic, queue_id), entries in self.left_out.skipped.items():
            report.note_skipped(topic, queue_id, entries)
        report.note_end(log.end, log.left_out)
        report.messages = log.messages
