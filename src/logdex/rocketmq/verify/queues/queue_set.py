"""Compares all ConsumeQueues with the log, in both directions. Messages and entries that do not
match within one queue are matched across queues at the end."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from logdex.errors import MissingFileError, StorageError, StoreError, UnreadableError
from logdex.io.env import Env
from logdex.io.open_files import OpenFiles
from logdex.primitives.shown import counted
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.consume_queue import discover_queues
from logdex.rocketmq.consume_queue.derive import ConsumeQueueDeriver
from logdex.rocketmq.consume_queue.lives import WHY_EARLIER
from logdex.rocketmq.files.known_topics import KnownTopics
from logdex.rocketmq.files.store_files import CONSUME_QUEUE_EXT_DIR, StorePaths, queue_folder
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.recognise.lost_end import RESTORE_LAST_FILE
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.scan.topic_table import TopicTable
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify.checks import LET_READ, RESTORE, Collector
from logdex.rocketmq.verify.damage import Damage
from logdex.rocketmq.verify.proven.runs import ProvenRun, QueueSpan
from logdex.rocketmq.verify.queues.left_over import Extra, LeftOver, Unplaced
from logdex.rocketmq.verify.queues.queue_check import QueueCheck
from logdex.rocketmq.verify.queues.queue_disk import QueueDisk
from logdex.rocketmq.verify.queues.queue_files import check_files, find_others
from logdex.rocketmq.verify.queues.queue_lives import life_start

_PUT_AGAIN = "the message is in the log, logdex cat shows it: put it again if consumers need it"
_OPEN_FILES_MAX = 96
"""Enough to find most queues' files open, and well below a limit of 256 descriptors."""


class QueueSet:
    """Checks the ConsumeQueues against the windows of the log, given in order. Not thread-safe. The
    owner must call `close`."""

    def __init__(
        self,
        root: str,
        config: StoreConfig,
        log: CommitLog,
        damage: Damage,
        out: Collector,
        env: Env,
        *,
        is_unclean: bool,
    ) -> None:
        self._root = root
        self._directory = StorePaths(root).consume_queue
        self._config = config
        self._log = log
        try:
            self._known = KnownTopics.read(root, env=env)
        except StorageError:  # the check of the small files reports it
            self._known = KnownTopics(root, None, env)
        self._damage = damage
        self._out = out
        self._env = env
        self._is_unclean = is_unclean
        self._open = OpenFiles(env, _OPEN_FILES_MAX)
        self._deriver = ConsumeQueueDeriver()
        self._left = LeftOver(out, is_unclean, log.was_trimmed)
        self._queues: list[QueueCheck | None] = []
        self._by_folder: dict[str, QueueCheck] = {}
        self._created_again: dict[str, tuple[int, int]] = {}
        self._has_any = env.is_dir(self._directory)
        self._has_ext = env.is_dir(f"{root}/{CONSUME_QUEUE_EXT_DIR}")
        if self._has_ext:
            text = "not supported: tagsCodes that point there are not checked"
            out.info("consume-queue-ext", f"{root}/{CONSUME_QUEUE_EXT_DIR}", text)

    def put(self, window: Window, scanner: Scanner) -> None:
        """Compares the entries on disk with those derived from the messages of a window."""
        if not self._has_any:
            return
        for number, offsets, entries in self._deriver.derive(window, scanner.table):
            queue = self._numbered(number, scanner.table)
            if queue is not None:
                queue.put(offsets, entries, window.file)

    def _numbered(self, number: int, table: TopicTable) -> QueueCheck | None:
        """Returns the queue with a number in the table of the scan, None if none can have its
        name."""
        while len(self._queues) <= number:
            name = table.queues[len(self._queues)]
            folder = queue_folder(name.topic, name.queue_id)
            self._queues.append(None if folder is None else self._queue(folder))
        return self._queues[number]

    def _spans(self, run: ProvenRun, table: TopicTable) -> Iterator[tuple[QueueCheck, QueueSpan]]:
        for name, span in run.queues.items():
            queue = self._numbered(table.number_of(*name), table)
            if queue is not None:
                yield queue, span

    def fits(self, run: ProvenRun, table: TopicTable) -> bool:
        """Whether the messages of a run can be taken without their entries. `table` is that of the
        scan; the queues that are new in the run are added to it."""
        for name in run.names:
            table.number_of(*name)
        if bool(run.queues) != self._has_any:
            return False
        return all(queue.fits(span) for queue, span in self._spans(run, table))

    def put_proven(self, run: ProvenRun, table: TopicTable) -> None:
        """Takes a run that fits, as `put` takes its windows."""
        for queue, span in self._spans(run, table):
            queue.put_proven(span, run.file)

    def _queue(self, folder: str) -> QueueCheck:
        queue = self._by_folder.get(folder)
        if queue is None:
            directory = f"{self._directory}/{folder}"
            size = self._config.consume_queue_file_size_bytes
            has = self._env.is_dir(directory)
            try:
                disk = QueueDisk(directory, size, self._env, self._open, self._find_unreadable) if has else None
            except MissingFileError:  # a broker has removed it meanwhile
                disk = None
            except StorageError as error:  # its messages are then without a ConsumeQueue, too
                self._out.find("unreadable", error.path, 0, "this directory cannot be listed", mend=LET_READ)
                disk = None
            if disk is not None:
                find_others(disk, self._out, self._env)
                disk = disk if disk.files else None
            queue = QueueCheck(folder, disk, self._out, self._damage, self._left, self._log)
            queue.has_ext = self._has_ext
            self._by_folder[folder] = queue
            if disk is not None:
                queue.look_anew = partial(self._look_anew, folder, disk)
                queue.lives.start = life_start(folder, disk, self._read_message)
                check_files(disk, self._out, is_unclean=self._is_unclean)
        return queue

    def _look_anew(self, folder: str, before: QueueDisk) -> tuple[QueueDisk, int] | None:
        for file in before.files:  # one that was removed may be open
            self._open.forget(file.path)
        try:
            disk = QueueDisk(before.directory, before.file_size_bytes, self._env, self._open, self._find_unreadable)
        except StorageError:
            return None
        return (disk, life_start(folder, disk, self._read_message)) if disk.files else None

    def _find_unreadable(self, error: UnreadableError) -> None:
        self._out.find_error("unreadable", error, self._out.rebuild)

    def _read_message(self, physical_offset: int) -> StoredMessage | None:
        """Returns a message; None if there is none. A topic that a broker has created again may
        begin in a file that is newer than the check."""
        try:
            return self._log.read_message(physical_offset, check_crc=False)
        except StoreError:
            if not self._is_unclean:
                return None
        try:
            with CommitLog.of_config(self._root, self._config, env=self._env) as log:
                return log.read_message(physical_offset, check_crc=False)
        except StoreError:
            return None

    def finish(self, end_offset: int, messages: int) -> None:
        """Checks what is left after the end of the log, and the queues without messages."""
        if not self._has_any:
            self._no_queues(messages)
            return
        stale = sum(each.finish(end_offset) for each in [*self._by_folder.values()]) + self._look_at_others(end_offset)
        for folder in {each.queue.folder for each in self._left.unplaced.values()}:
            self._by_folder[folder].has_begun_anew()
        if stale:
            text = f"{counted(stale, 'entry points', 'entries point')} behind the log's end: a recovery has cut it, or"
            self._out.info("consume-queue-stale-entries", self._directory, f"{text} {RESTORE_LAST_FILE}")
        for extra in self._left.extras:
            self._match_extra(extra)
        self._missing_queues()
        self._note_created_again()
        for folder, queue in sorted(self._by_folder.items()):
            self._settle_lives(folder, queue)
        behind = self._left.behind
        for physical_offset, unplaced in self._left.unplaced.items():
            behind += self._find_unplaced(physical_offset, unplaced)
        if behind:
            self._out.info(
                "consume-queue-behind",
                self._directory,
                f"{counted(behind, 'message has', 'messages have')} no entry yet: the last end was unclean, and a "
                "broker's next start makes it",
            )
        self._note_histories()

    def _no_queues(self, messages: int) -> None:
        if not messages:
            return
        if self._is_unclean:
            text = "there are no ConsumeQueues: a broker's next start makes them"
            self._out.info("consume-queue-missing", self._directory, text)
            return
        self._out.find(
            "consume-queue-missing",
            self._directory,
            0,
            "there are no ConsumeQueues",
            expected="a directory",
            found="nothing",
            mend=self._out.rebuild,
        )

    def _look_at_others(self, end_offset: int) -> int:
        """Checks the queues on disk that have no message in the log. Returns how many of their
        entries point after the log's end."""
        stale = 0
        for topic, queue_id, directory in discover_queues(self._directory.rpartition("/")[0], env=self._env):
            folder = directory[len(self._directory) + 1 :]
            if folder in self._by_folder:
                continue
            queue = self._queue(folder)
            stale += queue.finish(end_offset)
            name = topic.decode("utf-8", "backslashreplace")
            self._out.info("queue-without-messages", directory, f"the log has no message of {name} queue {queue_id}")
        return stale

    def _match_extra(self, extra: Extra) -> None:
        unplaced = self._left.unplaced.get(extra.physical_offset)
        if unplaced is not None and unplaced.queue is not extra.queue:
            del self._left.unplaced[extra.physical_offset]
            if unplaced.queue.disk is None:
                unplaced.queue.messages -= 1
            self._out.find(
                "message-queue",
                unplaced.path,
                unplaced.position,
                f"{extra.queue.folder} holds this message at queue offset {extra.queue_offset}",
                expected=f"{extra.queue.folder}, queue offset {extra.queue_offset}",
                found=f"{unplaced.queue.folder}, queue offset {unplaced.queue_offset}",
                mend=RESTORE,
                about=extra.physical_offset,
            )
            return
        assert extra.queue.disk is not None  # it was read there
        path, position = extra.queue.disk.place_of(extra.queue_offset)
        self._out.find(
            "consume-queue-extra-entry",
            path,
            position,
            f"the entry of queue offset {extra.queue_offset} points to no message of this queue",
            expected="zeros, or an entry of a message that the log has",
            found=f"physical offset {extra.physical_offset}",
            mend=self._out.rebuild,
            about=extra.physical_offset,
        )

    def _missing_queues(self) -> None:
        for folder, queue in sorted(self._by_folder.items()):
            if queue.disk is not None or queue.messages <= 0:
                continue
            path = f"{self._directory}/{folder}"
            told = f"{counted(queue.messages, 'message', 'messages')} and no ConsumeQueue"
            if reason := self._why_gone(folder, queue):
                self._out.info("deleted-queue", path, f"{told}: {reason}")
                continue
            if self._is_unclean:
                self._out.info("consume-queue-missing", path, f"{told} yet")
                continue
            text, mend = f"the queue has {told}", self._out.rebuild
            if self._known.topics is None:
                text += ", and no topics.json says whether its topic was deleted"
                mend += "; nothing if the topic was deleted"
            self._out.find(
                "consume-queue-missing", path, 0, text, expected="a directory with files", found="nothing", mend=mend
            )

    def _note_created_again(self) -> None:
        """Notes which topics have been created again, and the first and the last physical offset at
        which that had been done, as far as their queues show it."""
        for folder, queue in self._by_folder.items():
            place = queue.lives.created_again_at
            if place is not None:
                topic = folder.rpartition("/")[0]
                first, last = self._created_again.get(topic, (place, place))
                self._created_again[topic] = min(first, place), max(last, place)

    def _settle_lives(self, folder: str, queue: QueueCheck) -> None:
        """Reports what a queue lacks in front and which messages it holds at another place than
        they state: as information if that is of earlier lives of its topic, else as findings."""
        lives, path = queue.lives, f"{self._directory}/{folder}"
        if lives.lacking_first < 0 and not lives.appended:
            return
        topic = folder.rpartition("/")[0]
        again = self._created_again.get(topic)
        is_earlier = again is not None and lives.lacking_last_physical < again[1]
        if lives.lacking_first >= 0 and (is_earlier or self._known.is_deleted(topic.encode())):
            text = "the messages before its first file are of an earlier life of the topic"
            self._out.info("earlier-life", path, text)
        elif lives.lacking_first >= 0:
            queue.find_lacking_front()
        if lives.appended and again is not None:
            count = counted(len(lives.appended), "message", "messages")
            text = f"{count} with queue offset 0, put behind an earlier life of the topic after a crash"
            self._out.info("appended-life", path, text)
        elif lives.appended:
            for each in lives.appended:
                queue.find_wrong_queue_offset(each)

    def _why_gone(self, folder: str, queue: QueueCheck) -> str:
        """Returns why a broker has no ConsumeQueue of a queue with messages; empty if it should
        have one."""
        topic = folder.rpartition("/")[0]
        if self._known.is_deleted(topic.encode()):
            return "the topic is deleted, topics.json does not have it"
        others = [
            each for name, each in self._by_folder.items() if name.startswith(f"{topic}/") and each.disk is not None
        ]
        others = [each for each in others if each.lives.earlier] or others
        if others and queue.last_physical_offset < min(each.lives.start for each in others):
            return "the topic was deleted and created again, and they are of its earlier life"
        return ""

    def _find_unplaced(self, physical_offset: int, unplaced: Unplaced) -> bool:
        """Reports a message that no queue has an entry of. Returns True instead if that is expected
        after an unclean shutdown."""
        disk = unplaced.queue.disk
        if disk is None:
            return False
        if self._left.may_follow(unplaced):
            return True
        offset = unplaced.queue_offset
        if unplaced.check == "message-queue-offset":
            again = self._created_again.get(unplaced.queue.folder.rpartition("/")[0])
            why = (
                "a message before has this queue offset or a higher one"
                if unplaced.is_passed
                else "there is no such place"
            )
            text = f"{unplaced.queue.folder} has no entry of this message, so that no consumer gets it: {why}"
            mend = f"{_PUT_AGAIN}; {RESTORE} if a copy there states another queue offset"
            if again is not None and physical_offset >= again[0]:
                text += "; a broker left this one out after a crash, because the topic had been created again"
                mend = self._out.rebuild
            self._out.find(
                unplaced.check,
                unplaced.path,
                unplaced.position + 20,
                text,
                expected="a queue offset of its own",
                found=offset,
                mend=mend,
                about=physical_offset,
            )
            return False
        path, position = disk.place_of(offset)
        self._out.find(
            unplaced.check,
            path,
            position,
            f"queue offset {offset} has no entry of its message at {physical_offset}",
            expected=f"physical offset {physical_offset}",
            found="zeros" if unplaced.is_zero else "another entry",
            mend=self._out.rebuild,
            about=physical_offset,
        )
        return False

    def _note_histories(self) -> None:
        for folder, queue in sorted(self._by_folder.items()):
            if queue.gaps:
                self._out.info(
                    "queue-offset-gap",
                    f"{self._directory}/{folder}",
                    f"{counted(queue.gaps, 'queue offset has', 'queue offsets have')} no message in the log, "
                    f"the first is {queue.first_gap}",
                )
            if queue.lives.earlier:
                are = counted(queue.lives.earlier, "message is", "messages are")
                self._out.info("earlier-life", f"{self._directory}/{folder}", f"{are} in no queue: {WHY_EARLIER}")
            if queue.other_delays:
                self._out.info(
                    "delay-levels",
                    f"{self._directory}/{folder}",
                    f"{counted(queue.other_delays, 'entry was', 'entries were')} written with another "
                    "messageDelayLevel",
                )
            if queue.tag_hashes:
                self._out.info(
                    "delay-tag-hash",
                    f"{self._directory}/{folder}",
                    f"{counted(queue.tag_hashes, 'entry holds', 'entries hold')} the hash of the tag in place of the "
                    "delivery time: a broker wrote them when it started after a kill, before it had loaded the delay "
                    "levels",
                )

    def close(self) -> None:
        """Closes the open files."""
        self._open.close()
