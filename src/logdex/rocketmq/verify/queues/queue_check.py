"""Compares one queue with the log: the entries derived from its messages place by place, and the
places without a message."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from logdex.errors import StoreError
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY, MESSAGE_HEAD
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.consume_queue.consume_queue import EXT_ADDRESS_MAX
from logdex.rocketmq.message.tags_code import SCHEDULE_TOPIC_NAME, tag_hash
from logdex.rocketmq.settings.store_config import is_delay
from logdex.rocketmq.verify.checks import RESTORE, Collector
from logdex.rocketmq.verify.damage import Damage
from logdex.rocketmq.verify.proven.runs import QueueSpan
from logdex.rocketmq.verify.queues.left_over import Extra, LeftOver, Unplaced
from logdex.rocketmq.verify.queues.queue_disk import QueueDisk, Rows, fields_of, is_pre_blank, is_written
from logdex.rocketmq.verify.queues.queue_lives import APPENDED_MAX, Appended, QueueLives

_CHUNK_ROWS = 4096
Mask = npt.NDArray[np.bool_]
_AT_QUEUE_OFFSET = MESSAGE_HEAD.offset_of("queue_offset")
_FIELDS = (("size", "consume-queue-size"), ("tags_code", "consume-queue-tags-code"))
_DELAYED = f"{SCHEDULE_TOPIC_NAME.decode()}/"


def _differing(found: Rows, rows: Rows) -> npt.NDArray[np.int64]:
    """Returns the numbers of the rows that differ, mostly none."""
    if np.array_equal(found, rows):
        return np.zeros(0, np.int64)
    return np.flatnonzero((found != rows).any(axis=1))


class QueueCheck:
    """Checks one queue, given its derived entries in log order. `disk` is None if the queue has no
    directory. Not thread-safe."""

    def __init__(
        self, folder: str, disk: QueueDisk | None, out: Collector, damage: Damage, left: LeftOver, log: CommitLog
    ) -> None:
        self.folder = folder
        self.disk = disk
        self.next = -1
        self.messages = 0
        self.gaps = 0
        self.first_gap = -1
        self.has_ext = False
        self.is_delayed = folder.startswith(_DELAYED)
        self.other_delays = 0
        """The entries that hold another delay than that of their message's level."""
        self.tag_hashes = 0
        """The entries of delayed messages that hold the tag's hash."""
        self.lives = QueueLives()
        self.last_physical_offset = -1
        self.look_anew: Callable[[], tuple[QueueDisk, int] | None] = lambda: None
        """Lists the queue's files again, and returns them with where their life begins."""
        self._out = out
        self._damage = damage
        self._left = left
        self._log = log
        self._min_offset = log.min_offset
        self._file: CommitLogFile | None = None

    def put(self, offsets: npt.NDArray[np.int64], entries: npt.NDArray[np.uint8], file: CommitLogFile) -> None:
        """Compares derived entries with those on disk. `offsets` are their queue offsets. All their
        messages lie in `file`."""
        rows = entries.reshape(len(offsets), -1)
        self.lives.see(offsets, fields_of(rows)["physical_offset"])
        if int(fields_of(rows[:1])[0]["physical_offset"]) < self.lives.start:
            is_earlier = fields_of(rows)["physical_offset"] < self.lives.start
            self.lives.earlier += int(is_earlier.sum())
            offsets, rows = offsets[~is_earlier], rows[~is_earlier]
            if not len(offsets):
                return
        self.messages += len(offsets)
        self.last_physical_offset = int(fields_of(rows[-1:])[0]["physical_offset"])
        self._file = file
        if self.disk is None:
            if self.messages <= 2:
                for offset, row in zip(offsets.tolist(), rows, strict=True):
                    self._unplaced(offset, row, is_zero=True)
            return
        cuts = np.flatnonzero(np.diff(offsets) != 1) + 1
        if not len(cuts):
            self._put_consecutive(self.disk, int(offsets[0]), rows)
            return
        for part, part_rows in zip(np.split(offsets, cuts), np.split(rows, cuts), strict=True):
            self._put_consecutive(self.disk, int(part[0]), part_rows)

    def fits(self, span: QueueSpan) -> bool:
        """Whether the messages of a span can be taken without their entries."""
        if span.first_physical < self.lives.start or span.has_files != (self.disk is not None):
            return False
        return self.disk is not None or self.messages >= 2  # the first two are kept, to be matched

    def put_proven(self, span: QueueSpan, file: CommitLogFile) -> None:
        """Takes a span that fits, as `put` takes its messages and their entries."""
        self.lives.see_span(span.first, span.end, span.first_physical)
        self.messages += span.end - span.first
        self.last_physical_offset, self._file = span.last_physical, file
        if self.disk is not None:
            if self.next < 0:
                self._begin(self.disk, span.first, self.disk.read(span.first, 1)[0])
            self._matched(self.disk, span.first, span.end)

    def _put_consecutive(self, disk: QueueDisk, first: int, rows: Rows) -> None:
        if int(fields_of(rows[:1])[0]["physical_offset"]) < self.lives.start:  # a newer life was seen just now
            self._put_again(first, rows)
            return
        found = disk.read(first, len(rows))
        differ = _differing(found, rows)
        if len(differ) and self._left.was_trimmed(self._file):
            self.next = max(self.next, first + len(rows))
            return
        if self.next < 0:
            self._begin(disk, first, rows[0])
        if found[differ].any() and self._left.look_again():
            if self.has_begun_anew():
                self._put_again(first, rows)
                return
            found = disk.read(first, len(rows))
            differ = _differing(found, rows)
        at = 0
        for i in differ.tolist():
            self._matched(disk, first + at, first + i)
            self._place(disk, first + i, rows[i], found[i])
            at = i + 1
        self._matched(disk, first + at, first + len(rows))

    def has_begun_anew(self) -> bool:
        """Whether a broker has created the topic again since the queue's files were listed. What is
        known of the earlier life is then dropped."""
        found = self.look_anew()
        if found is None or found[1] <= self.lives.start:
            return False
        self.disk, self.lives.start = found
        self.next = -1
        self._left.forget(self)
        return True

    def _put_again(self, first: int, rows: Rows) -> None:
        """Compares the rows that are not of an earlier life with the newer one."""
        earlier = int((fields_of(rows)["physical_offset"] < self.lives.start).sum())
        self.lives.earlier += earlier
        self.messages -= earlier
        if self.disk is not None and earlier < len(rows):
            self._put_consecutive(self.disk, first + earlier, rows[earlier:])

    def _begin(self, disk: QueueDisk, first: int, row: npt.NDArray[np.uint8]) -> None:
        """Handles the first message: finds the first place whose message is still in the log."""
        self.next = disk.start
        start = first
        if not np.array_equal(disk.read(first, 1)[0], row) and not disk.is_unreadable(first):
            backed = self._first_backed(disk)
            start = first if backed is None else backed
            is_row = backed is not None and np.array_equal(disk.read(backed, 1)[0], row)
            if 0 <= first < disk.start and not is_row:
                self.lives.lacking_first = start = first
            elif not is_row and first >= 0 and not disk.has(first):
                start = first  # its file is cut, which is reported elsewhere
        if disk.start < start <= disk.end:
            self.look_at_places(disk, disk.start, start)
            self.next = start
        elif start < disk.start or not disk.files:
            self.next = max(start, 0)

    def _first_backed(self, disk: QueueDisk) -> int | None:
        for at, rows in disk.chunks(disk.start, disk.end, _CHUNK_ROWS):
            backed = np.flatnonzero(self._calls_for_message(fields_of(rows)))
            if len(backed):
                return at + int(backed[0])
        return None

    def _calls_for_message(self, entries: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
        offsets = entries["physical_offset"].astype(np.int64)
        gone = (offsets < self._min_offset) | self._damage.covers(offsets)
        return np.asarray(is_written(entries) & ~is_pre_blank(entries) & ~gone)

    def _matched(self, disk: QueueDisk, start: int, end: int) -> None:
        """Notes that the places [start, end) hold the right entries."""
        if end > start:
            self._advance(disk, start)
            self.next = max(self.next, end)

    def _advance(self, disk: QueueDisk, to: int) -> None:
        if to > self.next:
            self.gaps += to - self.next
            self.first_gap = self.next if self.first_gap < 0 else self.first_gap
            self.look_at_places(disk, self.next, to)
            self.next = to

    def _place(
        self, disk: QueueDisk, offset: int, row: npt.NDArray[np.uint8], found_row: npt.NDArray[np.uint8]
    ) -> None:
        """Handles one message whose entry differs from what its place holds."""
        is_lacking = not disk.has(offset) and offset >= self.next and self._is_known_lack(disk, offset)
        if is_lacking and offset < disk.start:
            self.lives.lacking_last_physical = int(fields_of(row)[0]["physical_offset"])
        if is_lacking or disk.is_unreadable(offset):
            self._matched(disk, offset, offset + 1)  # the missing, cut or unreadable file is reported elsewhere
            return
        expected, found = fields_of(row)[0], fields_of(found_row)[0]
        is_zero = not found_row.any()
        if not is_zero and found["physical_offset"] == expected["physical_offset"]:
            self._matched(disk, offset, offset + 1)
            self._field_differs(disk, offset, expected, found)
        elif offset != self.next and np.array_equal(disk.read(self.next, 1)[0], row):
            self._wrong_queue_offset(expected, offset, self.next)
            self.next += 1
        elif not is_zero and offset >= self.next and all(found[name] == expected[name] for name, _ in _FIELDS):
            self._matched(disk, offset, offset + 1)
            self._find_entry("consume-queue-offset", disk, offset, "physical_offset", expected, found)
        else:
            self._unplaced(offset, row, is_zero=is_zero)
            if offset == self.next:
                self.next += 1

    def _is_known_lack(self, disk: QueueDisk, offset: int) -> bool:
        """Whether the file of this place was already reported, as missing between others or as
        cut."""
        is_in_front = self.lives.lacking_first >= 0 and 0 <= offset < disk.start
        return (
            is_in_front
            or disk.start <= offset < disk.end
            or any(
                file.size_bytes < disk.file_size_bytes and 0 <= offset * 20 - file.start_offset < disk.file_size_bytes
                for file in disk.files[-1:]
            )
        )

    def _field_differs(self, disk: QueueDisk, offset: int, expected: np.void, found: np.void) -> None:
        differ = [(name, check) for name, check in _FIELDS if expected[name] != found[name]]
        if self.has_ext and found["tags_code"] <= EXT_ADDRESS_MAX:
            differ = [pair for pair in differ if pair[0] != "tags_code"]
        elif self.is_delayed and is_delay(abs(int(found["tags_code"]) - int(expected["tags_code"]))):
            self.other_delays += found["tags_code"] != expected["tags_code"]
            differ = [pair for pair in differ if pair[0] != "tags_code"]
        elif self.is_delayed and self._is_tag_hash(expected, int(found["tags_code"])):
            self.tag_hashes += 1
            differ = [pair for pair in differ if pair[0] != "tags_code"]
        if len(differ) == 1:
            self._find_entry(differ[0][1], disk, offset, differ[0][0], expected, found)
        elif differ:
            self._find_entry("consume-queue-entry", disk, offset, None, expected, found)

    def _is_tag_hash(self, expected: np.void, tags_code: int) -> bool:
        """Whether `tags_code` is the hash of the message's tag. A 4.9 broker that starts after a
        kill dispatches messages before it has loaded the delay levels, and takes them for messages
        that are not delayed (DefaultMessageStore.load)."""
        try:
            message = self._log.read_message(int(expected["physical_offset"]), check_crc=False)
        except StoreError:
            return False
        return tags_code == tag_hash(message)

    def _find_entry(
        self, check: str, disk: QueueDisk, offset: int, name: str | None, expected: np.void, found: np.void
    ) -> None:
        path, position = disk.place_of(offset)
        what = "entry" if name is None else name.replace("_", " ")
        shown = (expected, found) if name is None else (expected[name], found[name])
        self._out.find(
            check,
            path,
            position + (CONSUME_QUEUE_ENTRY.offset_of(name) if name else 0),
            f"the {what} of queue offset {offset} is not that of its message at {expected['physical_offset']}",
            expected=shown[0],
            found=shown[1],
            mend=self._out.rebuild,
            about=int(expected["physical_offset"]),
        )

    def _wrong_queue_offset(self, entry: np.void, stated: int, expected: int) -> None:
        file = self._file
        assert file is not None  # put() sets it
        physical_offset = int(entry["physical_offset"])
        position = physical_offset - file.start_offset + _AT_QUEUE_OFFSET
        found = Appended(file.path, position, physical_offset, expected)
        if stated == 0 and len(self.lives.appended) < APPENDED_MAX:
            self.lives.appended.append(found)
        else:
            self.find_wrong_queue_offset(found, stated)

    def find_wrong_queue_offset(self, found: Appended, stated: int = 0) -> None:
        """Reports a message that states another queue offset than its place in the queue."""
        self._out.find(
            "message-queue-offset",
            found.path,
            found.position,
            f"{self.folder} holds this message at queue offset {found.held_at}",
            expected=found.held_at,
            found=stated,
            mend=f"{RESTORE}; if it is so for all messages of the queue from here on, a broker made the queue anew of "
            f"a log with a gap, and the messages are right: {self._out.rebuild}",
            about=found.physical_offset,
        )

    def find_lacking_front(self) -> None:
        """Reports that the log has messages for queue offsets before the first file."""
        assert self.disk is not None  # its files lack what is before them
        path, position = self.disk.place_of(self.lives.lacking_first)
        self._out.find(
            "consume-queue-gap",
            path,
            0,
            "a ConsumeQueue file is missing, the log has messages for it",
            expected=f"an entry for queue offset {self.lives.lacking_first} at byte {position}",
            found=f"a first file that begins with queue offset {self.disk.start}",
            mend=self._out.rebuild,
        )

    def _unplaced(self, offset: int, row: npt.NDArray[np.uint8], *, is_zero: bool) -> None:
        file = self._file
        assert file is not None  # put() sets it
        physical = int(fields_of(row)[0]["physical_offset"])
        at = physical - file.start_offset
        self._left.add_message(physical, Unplaced(self, offset, file.path, at, offset < self.next, is_zero))

    def look_at_places(self, disk: QueueDisk, start: int, end: int) -> int:
        """Notes the entries at places [start, end) that point to no message; no message belongs to
        these places. Returns how many entries are explained, because they point into damage or
        before the log's start, or repeat the entry behind them, with which a rebuild fills a
        gap."""
        explained, following = 0, disk.read(end, 1)[0]
        for at, rows in disk.chunks(start, end, _CHUNK_ROWS):
            entries = fields_of(rows)
            is_repeated = (rows == following).all(axis=1)
            wanting = np.flatnonzero(self._calls_for_message(entries) & ~is_repeated)
            explained += int(is_written(entries).sum()) - len(wanting)
            for i in wanting.tolist():
                self._left.add_entry(Extra(self, at + i, int(entries["physical_offset"][i])))
        return explained

    def finish(self, end_offset: int) -> int:
        """Checks the places after the last entry. Returns how many entries there point after the
        log's end."""
        disk = self.disk
        if disk is None:
            return 0
        stale = 0
        for at, rows in disk.chunks(max(self.next, disk.start), disk.end, _CHUNK_ROWS):
            if not rows.any():
                break
            entries, behind, extra, stray = self._rest_of(rows, end_offset)
            if (extra.any() or stray.any()) and self._left.look_again():
                rows = disk.read(at, len(rows))
                entries, behind, extra, stray = self._rest_of(rows, end_offset)
            stale += int(behind.sum())
            for i in np.flatnonzero(extra).tolist():
                self._left.add_entry(Extra(self, at + i, int(entries["physical_offset"][i])))
            if stray.any():
                path, position = disk.place_of(at + int(np.argmax(stray)))
                self._out.find(
                    "consume-queue-stray-bytes",
                    path,
                    position,
                    "not zero, and no entry",
                    expected="zeros",
                    found=rows[int(np.argmax(stray))].tobytes().hex(" "),
                    mend=self._out.rebuild,
                )
        return stale

    def _rest_of(self, rows: Rows, end_offset: int) -> tuple[npt.NDArray[np.void], Mask, Mask, Mask]:
        """Returns rows behind the last entry as fields, and masks of the entries that point behind
        the log's end, of those that call for a message, and of bytes that are no entry."""
        entries = fields_of(rows)
        behind = is_written(entries) & (entries["physical_offset"] >= end_offset)
        return entries, behind, self._calls_for_message(entries) & ~behind, rows.any(axis=1) & ~is_written(entries)
