"""The log of a slave: takes the bytes of the master's log as they come, and appends whole messages.

Parts of the log end anywhere, so the last bytes are kept in memory until their message is whole. So
the log on disk always ends after a message, and each message is checked before it is written: its
lengths, its CRC, and that it lies where it says.

Before anything new is taken, the master sends the last bytes of the slave's log again. If they
differ, the master's log is another one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from logdex.errors import CorruptError, GeometryError, LogdexError, NotAPrefixError, ProtocolError
from logdex.layout.rocketmq import BLANK, BLANK_MAGIC, MESSAGE_FIXED_SIZE_BYTES_MIN, MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2
from logdex.limits import HA_MESSAGE_SIZE_BYTES_MAX
from logdex.rocketmq.files.offset_files import OffsetFile
from logdex.rocketmq.ha.wire import LAST_FILE, Transfer
from logdex.rocketmq.message.stored_message import decode_message
from logdex.rocketmq.message_store.core import StoreCore
from logdex.rocketmq.scan.scanner import Scanner

OVERLAP_BYTES = 4096
"""How much of the slave's log the master sends again: several messages, with their times."""
_OTHER_LOG = "give another --output, or remove this one"


class ReplicaLog:
    """For one thread. `messages` counts the messages appended so far."""

    def __init__(self, core: StoreCore, master: str) -> None:
        self.messages = 0
        self._core, self._master = core, master
        self._scanner = Scanner(core.config, env=core.env, nobody_writes=True)
        self._known_queues = 0
        self._kept = bytearray()
        self._filler_left = 0
        self._next = core.log.end_offset

    @property
    def end_offset(self) -> int:
        """The physical offset after the last message."""
        return self._core.log.end_offset

    @property
    def next_offset(self) -> int:
        """The physical offset of the next byte that is needed from the master."""
        return self._next

    @property
    def is_whole(self) -> bool:
        """Whether no part of a message is waiting for the rest of it."""
        return not self._filler_left and (self._next == self.end_offset or (self._next == 1 and not self.end_offset))

    @property
    def is_joined(self) -> bool:
        """Whether the master has sent the last bytes of this log again."""
        return self._next >= self.end_offset

    def begin(self) -> int:
        """Forgets what is not whole, for a new connection. Returns the offset to ask for.

        The bytes that are sent again lie in the last file, so that the master still has them if it
        has what follows. Offset 0 would ask for the master's last file; byte 0 of a log is zero.
        The log is on disk then, because a master takes this offset, too, for an acknowledgement.
        """
        self._flush()
        end = self.end_offset
        self._kept.clear()
        self._filler_left = 0
        self._next = max(end - min(OVERLAP_BYTES, end % self._core.log.file_size_bytes), LAST_FILE + 1)
        if not end:
            self._kept += b"\0"
        return self._next

    def take(self, transfer: Transfer) -> None:
        """Takes a transfer that begins at `next_offset`. Raises `NotAPrefixError` if it contradicts
        this log."""
        body = transfer.body
        again = max(min(self.end_offset - self._next, len(body)), 0)
        if again:
            with self._core.gate.reading():
                own = self._core.reader.read(self._next, again)
            if own != body[:again]:
                at = next(place for place in range(again) if own[place] != body[place])
                raise NotAPrefixError(
                    f"the log of {self._master} differs at offset {self._next + at}; this one ends at "
                    f"{self.end_offset}",
                    path=self._core.paths.root,
                    hint=_OTHER_LOG,
                )
        self._next += len(body)
        self._kept += body[again:]

    def settle(self) -> bool:
        """Appends all whole messages, durably. Returns whether there were any."""
        before = self.end_offset
        while self._kept and (self._fill() if self._filler_left else self._append()):
            pass
        self._flush()
        return self.end_offset != before

    def _flush(self) -> None:
        """Writes the log to disk up to its end, if it is not there yet: an earlier `settle` may
        have ended in an error. Raises `LogFailedError` after a failed write."""
        if self._core.durable_offset < self.end_offset:
            self._core.flush_log()

    # -- messages ---------------------------------------------------------------------------------
    def _append(self) -> bool:
        """Appends the whole messages of one file. Returns whether the filler follows."""
        log, core = self._core.log, self._core
        begin, room = log.end_offset, log.file_size_bytes - log.position
        data = np.frombuffer(bytes(memoryview(self._kept)[:room]), np.uint8)
        file = OffsetFile(log.path_of(log.start_offset), log.start_offset, log.file_size_bytes)
        windows, count, last_ms = self._scanner.scan_bytes(file, data, begin), 0, core.last_timestamp_ms
        while True:
            try:
                window = next(windows)
            except StopIteration as stop:
                is_filled, done = stop.value
                break
            position, stored = window.columns.position[: window.count], window.columns.stored_offset[: window.count]
            if (position != stored).any():
                row = int((position != stored).argmax())
                self._refuse(int(position[row]), f"a message that says it is at offset {stored[row]}")
            count += window.count
            last_ms = int(window.columns.store_timestamp_ms[window.count - 1])
        if done + BLANK.size_bytes > room:
            self._other_geometry(begin + done, "leaves no room for the end of a file")
        if not done and not is_filled:
            self._require_possible(data, room)
            return False
        if done:
            self._write(data[:done], count, last_ms)
        if is_filled:
            self._begin_filler()
        return bool(is_filled)

    def _write(self, data: npt.NDArray[np.uint8], count: int, last_ms: int) -> None:
        core = self._core
        queues = self._scanner.table.queues
        core.topics.require_all(queues[self._known_queues :], core.clock_ms())
        self._known_queues = len(queues)
        with core.lock:
            core.require_usable()
            core.append(data.data)
            core.last_timestamp_ms = last_ms
        self.messages += count
        del self._kept[: len(data)]

    def _require_possible(self, data: npt.NDArray[np.uint8], room: int) -> None:
        """Raises an error unless `data`, which has no whole message, may be the start of one."""
        if len(data) < BLANK.size_bytes:
            return
        size, magic = BLANK.struct.unpack_from(data.data)
        is_message = magic in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2) and size >= MESSAGE_FIXED_SIZE_BYTES_MIN
        if is_message and len(data) < min(size, HA_MESSAGE_SIZE_BYTES_MAX + 1) and size + BLANK.size_bytes <= room:
            return
        if is_message and size + BLANK.size_bytes > room:
            self._other_geometry(self.end_offset + size, "does not fit the file")
        try:
            decode_message(data.data, 0, path=self._master)
            what = f"a message of {size} bytes"
        except CorruptError as error:
            what = f"no message: {error.description}"
        self._refuse(self.end_offset, what)

    # -- the end of a file ------------------------------------------------------------------------
    def _begin_filler(self) -> None:
        log = self._core.log
        size, magic = BLANK.struct.unpack_from(self._kept)
        assert magic == BLANK_MAGIC
        self._filler_left = log.file_size_bytes - log.position
        if size != self._filler_left:
            self._other_geometry(self.end_offset + size, "is the end of a file there")

    def _fill(self) -> bool:
        """Takes a part of the filler: its head, then bytes without a meaning, which are zeros as a
        rule. Returns whether the file has ended."""
        core, log = self._core, self._core.log
        part = bytes(memoryview(self._kept)[: self._filler_left])
        if any(part):
            with core.lock:
                core.require_usable()
                core.write(log.file_size_bytes - self._filler_left, part)
        self._filler_left -= len(part)
        del self._kept[: len(part)]
        if self._filler_left:
            return False
        with core.lock:
            core.require_usable()
            while not core.make_room(log.file_size_bytes):
                core.prepare_file()  # raises what the system says
        return True

    # -- errors -----------------------------------------------------------------------------------
    def _refuse(self, offset: int, what: str) -> None:
        raise ProtocolError(f"{self._master} sent, for offset {offset}, {what}", hint="run logdex verify on the master")

    def _other_geometry(self, offset: int, what: str) -> None:
        size = self._core.log.file_size_bytes
        raise GeometryError(
            f"the log of {self._master} has other files than this one, of {size} bytes: offset {offset} {what}",
            path=self._core.paths.root,
            hint="remove the output, and give --mapped-file-size-commit-log as in the master's configuration",
        )


def not_there(master: str, path: str, own_end: int, why: str) -> LogdexError:
    """Returns the error for a master that does not have what follows a slave's log."""
    return NotAPrefixError(f"{master} does not have offset {own_end} of its log: {why}", path=path, hint=_OTHER_LOG)
