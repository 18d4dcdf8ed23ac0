"""The files of a CommitLog that is being written: appending, the filler at a file's end, the next
file made ahead.

A file is on disk as a whole before the first message of the next one is written, so a power cut
leaves a prefix of the log, then perhaps torn messages in its last file. Source: MappedFileQueue,
AllocateMappedFileService, CommitLog.DefaultAppendMessageCallback.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from logdex.io.env import Env, WriteFile
from logdex.io.zeros import write_zeros_from
from logdex.layout.rocketmq import BLANK, BLANK_MAGIC, FILE_NAME_DIGITS


class LogFiles:
    """The last file of the log, in which `position` bytes are written, and the one after it. The
    caller orders the calls."""

    def __init__(self, env: Env, directory: str, file_size_bytes: int, end_offset: int, *, warm: bool = False) -> None:
        """Opens the file that holds `end_offset`, where the log ends; creates it if it is missing.
        With `warm`, disk space is reserved for files that are made ahead."""
        self.directory = directory
        self.file_size_bytes = file_size_bytes
        self.end_offset = end_offset
        """The physical offset after the last message that is written. Any thread may read it."""
        self.next_offset = end_offset
        """The physical offset of the next message, after those that are held."""
        self.start_offset = end_offset - end_offset % file_size_bytes
        self._env = env
        self._warm = warm
        self._held: list[bytes] = []
        self._ahead: WriteFile | None = None
        self._active = self._open(self.start_offset, self.position)

    def path_of(self, start_offset: int) -> str:
        """The path of the file that begins at a physical offset."""
        return f"{self.directory}/{start_offset:0{FILE_NAME_DIGITS}d}"

    @property
    def position(self) -> int:
        """The position of the next message in the active file."""
        return self.next_offset - self.start_offset

    @property
    def active(self) -> WriteFile:
        """The file that is written."""
        return self._active

    def fits(self, size_bytes: int) -> bool:
        """Whether a message of this size goes into the active file: the filler must fit after
        it."""
        return self.next_offset - self.start_offset + size_bytes + BLANK.size_bytes <= self.file_size_bytes

    def append(self, data: bytes | memoryview | npt.NDArray[np.uint8]) -> None:
        """Writes messages that `fits` admits at the end of the log, after those that are held."""
        if self._held:
            self.write_held()
        at = self.end_offset
        self._active.write_at(at - self.start_offset, data)
        self.end_offset = self.next_offset = at + len(data)

    def hold(self, data: bytes) -> None:
        """Keeps messages that `fits` admits in memory until `write_held`, `append` or
        `end_file`."""
        self._held.append(data)
        self.next_offset += len(data)

    def write_held(self) -> None:
        """Writes the messages that are held at the end of the log."""
        if self._held:
            data = b"".join(self._held)
            self._active.write_at(self.end_offset - self.start_offset, data)
            self._held.clear()
            self.end_offset += len(data)

    def _open(self, start_offset: int, position: int = 0) -> WriteFile:
        """Opens a file with its full size and with zeros from `position` on. All of that is on disk
        then, and its name: a file that is there may have been made by a process that was killed, or
        be left of a failed try. Stale bytes behind the end of the log could come back as messages
        after a power cut."""
        path = self.path_of(start_offset)
        file = self._env.open_write(path)
        try:
            write_zeros_from(file, position, self._env)
            if self._env.size_bytes(path) != self.file_size_bytes:
                file.truncate(self.file_size_bytes)
            if self._warm and not position:
                file.reserve(0, self.file_size_bytes)
            file.sync()
            self._env.sync_dir(self.directory)
        except BaseException:
            file.close()
            raise
        return file

    def prepare(self) -> bool:
        """Makes the next file ahead. Returns False if there is one already.

        A broker that is started on the store removes it before it finds that the store is locked:
        what was put into it then would have no name.
        """
        if self._has_ahead():
            return False
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None
        self._ahead = self._open(self.start_offset + self.file_size_bytes)
        return True

    def end_file(self, sync: Callable[[Callable[[], None]], None]) -> WriteFile:
        """Ends the active file with the filler and goes on in the prepared one. The old file is on
        disk by then, through `sync`, which is given its fsync; it is returned for closing."""
        assert self._ahead is not None
        self.write_held()
        old = self._active
        old.write_at(self.position, BLANK.pack(self.file_size_bytes - self.position, BLANK_MAGIC))
        sync(old.sync)
        self._active, self._ahead = self._ahead, None
        self.start_offset += self.file_size_bytes
        self.end_offset = self.next_offset = self.start_offset
        return old

    def drop_ahead(self) -> None:
        """Removes the file that was made ahead, as the broker does at a clean shutdown."""
        if self._ahead is not None:
            is_there = self._has_ahead()
            self._ahead.close()
            if is_there:
                self._env.remove(self._ahead.path)
            self._ahead = None

    def _has_ahead(self) -> bool:
        """Whether the file that was made ahead is still there."""
        return self._ahead is not None and self._env.identity(self._ahead.path) == self._ahead.identity

    def close(self) -> None:
        """Closes the files without syncing them."""
        self._active.close()
        if self._ahead is not None:
            self._ahead.close()
