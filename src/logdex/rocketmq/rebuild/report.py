"""The report of a rebuild of a store."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from logdex.errors import UnusableFileError
from logdex.jobs import reports
from logdex.jobs.look_again import removed_meanwhile
from logdex.primitives.java_hash import decode_utf8
from logdex.primitives.shown import counted
from logdex.rocketmq.commit_log.log_end import LeftOutRange, LogEnd
from logdex.rocketmq.consume_queue.writer import QueueReport
from logdex.rocketmq.message.tags_code import SCHEDULE_TOPIC_NAME
from logdex.rocketmq.settings.store_config import StoreConfig, delay_text


@dataclass(slots=True)
class RebuildReport(reports.RebuildReport):
    """What a rebuild of a store did. `kept` maps directories.

    `earlier_life_entries` are those of topics that were deleted and created again, or of damaged
    messages that look so: the newest life replaces them. `deleted_topics` maps the topics that
    ``config/topics.json`` no longer has, and whose queues were therefore left out, to the number of
    their messages. `expired_queues` is the number of queues that were taken over as they were,
    because the log has no message of them any more; `stale_queues` that of queues that are left
    out, because they name messages that the log does not have. `unreadable_ranges` is the number of
    ranges of the log that the disk could not read and that messages follow. `checkpoint` states
    whether a checkpoint was written too, because the store was not shut down cleanly. `notes` are
    remarks that are not losses.
    """

    queues: int = 0
    queue_entries: int = 0
    index_files: int = 0
    index_entries: int = 0
    pre_blank_gaps: int = 0
    earlier_life_entries: int = 0
    expired_queues: int = 0
    stale_queues: int = 0
    unreadable_ranges: int = 0
    checkpoint: bool = False
    deleted_topics: dict[str, int] = field(default_factory=dict)
    time_zone: str = ""
    """The time zone in which the IndexFiles are named, and how it is known."""
    end: str = ""
    end_offset: int = 0
    notes: list[str] = field(default_factory=list)

    def note_end(self, end: LogEnd, left_out: Sequence[LeftOutRange] = ()) -> None:
        """Records where the log ends, and what of it could not be read. This and an end that is not
        clean are losses."""
        self.end, self.end_offset = end.kind.value, end.offset
        self.unreadable_ranges = len(left_out)
        self.losses += [each.description for each in left_out]
        if not end.is_clean:
            self.losses.append(end.description)

    def note_trimmed(self, paths: Iterable[str]) -> None:
        """Records files that a broker removed while the rebuild ran."""
        self.notes += removed_meanwhile(paths)

    def note_unusable(self, errors: Iterable[UnusableFileError]) -> None:
        """Records what is no file where the log has one. That the log ends there is recorded
        anyway."""
        told = "\n".join(self.losses)
        self.losses += [f"{error.message}: not read" for error in errors if error.path not in told]

    def note_delay_levels(self, folders: Iterable[str], config: StoreConfig) -> None:
        """Records the delay levels of messages in these queues that nobody stated and the store
        does not show. The broker puts the messages of a level into the queue level - 1."""
        if config.delay_levels_shown is None:
            return
        topic = SCHEDULE_TOPIC_NAME.decode()
        levels = sorted(int(folder[len(topic) + 1 :]) + 1 for folder in folders if folder.startswith(f"{topic}/"))
        delays = config.delay_levels_ms
        guesses = [
            f"level {level} is {delay_text(delays[min(max(level, 1), len(delays)) - 1])}"
            for level in levels
            if level not in config.delay_levels_shown
        ]
        if guesses:
            self.assumed.append(
                f"messageDelayLevel {', '.join(guesses)}, as by default: no ConsumeQueue shows it, and the delivery "
                "times of delayed messages depend on it (--message-delay-level, --broker-conf)"
            )

    def note_queue(self, folder: str, queue: QueueReport) -> None:
        """Adds the counts of one queue."""
        self.queues += 1
        self.queue_entries += queue.entries
        self.pre_blank_gaps += queue.gaps
        self.earlier_life_entries += queue.earlier
        if queue.repeated:
            left = counted(queue.repeated, "entry", "entries")
            text = "because a message before has their queue offset or a higher one, which may be damaged"
            self.losses.append(f"{folder}: {left} left out, {text}")
        if queue.implausible:
            left = counted(queue.implausible, "entry", "entries")
            self.losses.append(f"{folder}: {left} left out, because the queue offset cannot be")

    def note_deleted(self, topic: builtins.bytes, entries: int) -> None:
        """Records entries of a topic that the broker has deleted."""
        name = decode_utf8(topic)
        self.deleted_topics[name] = self.deleted_topics.get(name, 0) + entries

    def note_skipped(self, topic: builtins.bytes, queue_id: int, entries: int) -> None:
        """Records a queue whose topic cannot be the name of a folder."""
        left = counted(entries, "entry", "entries")
        self.losses.append(f"topic {topic!r} queue {queue_id}: {left} left out, no folder can have that name")
