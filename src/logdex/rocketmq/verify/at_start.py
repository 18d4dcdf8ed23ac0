"""What a store holds when its check begins. A broker may write on, and what it writes later is not
held against the store.

A broker writes a message first, then its entries. So what is derived is looked at before the end of
the log is: each entry that is counted at the start belongs to a message before that end.
"""

from __future__ import annotations

from logdex import limits
from logdex.errors import CorruptError, MissingFileError, UnreadableError, VanishedError
from logdex.io.env import Env
from logdex.io.process_lock import lock_is_held
from logdex.jobs import look_again
from logdex.layout.rocketmq import INDEX_HEADER
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.geometry.resolve import index_file_paths
from logdex.rocketmq.scan.log_extent import find_valid_end
from logdex.rocketmq.scan.log_walk import readable
from logdex.rocketmq.settings.store_config import StoreConfig

_LOOKS = 6
_LISTINGS_MAX = 10
_HEAD_BYTES = 64
END_PHY_OFFSET = [field.name for field in INDEX_HEADER.fields].index("end_phy_offset")
"""The place of that field in a header."""


class AtStart:
    """The state of the store at `root` at the start of a check, without the log's end until
    `find_end` has found it. It is empty without `is_unclean` (the file ``abort`` is there), because
    no broker writes then. Not thread-safe."""

    def __init__(self, root: str, env: Env, *, is_unclean: bool) -> None:
        self.is_unclean = is_unclean
        self.index_headers: dict[str, tuple[int, ...]] = {}
        """The header fields of each IndexFile, none for a file that is too short."""
        self.checkpoint: bytes | None = None
        """The checkpoint's bytes, None if it was not read."""
        self.end_offset: int | None = None
        """The physical offset after the last whole message, None if it was not looked for."""
        self._head = b""
        self._has_refused = False
        """Whether the log ends at a whole message that the engine does not take."""
        self._root, self._env = root, env
        if not is_unclean or env.is_file(root):
            return
        for path in index_file_paths(root, env):
            self.index_headers[path] = index_header(path, env)
        self.checkpoint = checkpoint_bytes(root, env)

    def find_end(self, log: CommitLog, config: StoreConfig) -> None:
        """Finds the end of `log`, which was listed after the start. It is listed again if a broker
        has removed a file since."""
        if not self.is_unclean:
            return
        known = [header[END_PHY_OFFSET] for header in self.index_headers.values() if header]
        for _ in range(_LISTINGS_MAX):
            try:
                end = find_valid_end(log, known, config, look_behind=False, env=self._env).end
                self._head = self._head_of(log, end.offset)
                self.end_offset = end.offset
                self._has_refused = not end.is_clean and readable(log, end.offset) is not None
                if not end.is_clean or readable(log, end.offset) is None:
                    return  # else a broker has written there since
            except VanishedError:
                log.refresh()
            except (CorruptError, MissingFileError, UnreadableError):
                return  # the check itself reports it

    def header_of(self, path: str) -> tuple[int, ...] | None:
        """Returns the header fields of an IndexFile at the start, zeros for one that had none yet.
        None if no broker may be writing."""
        if not self.is_unclean:
            return None
        return self.index_headers.get(path) or (0,) * len(INDEX_HEADER.fields)

    @staticmethod
    def _head_of(log: CommitLog, offset: int) -> bytes:
        """Returns the first bytes behind the end of the log."""
        file = log.file_of(offset)
        return b"" if file is None else log.read(offset, min(_HEAD_BYTES, file.end_offset - offset))

    def has_grown(self, log: CommitLog, *, wait: bool = False) -> bool:
        """Whether more was written behind the end of the log since the start, or a broker has
        removed the file of that end. With `wait` it looks several times, because a message may be
        half written, or its last bytes may be seen before its first ones."""
        end = self.end_offset
        if end is None:
            return False
        for look in range(_LOOKS if wait else 1):
            if look:
                look_again.pause(1 << (look - 1))
            try:
                if self._head_of(log, end) != self._head or (readable(log, end) is not None and not self._has_refused):
                    return True
            except VanishedError:
                return True  # a broker removes a file only when newer ones are behind it, or cut from the log
            except (CorruptError, MissingFileError, UnreadableError):
                return False
        return False

    def has_changed(self, log: CommitLog) -> bool:
        """Whether a broker writes, or has written since the start: it holds the store's lock, or
        the log or the index has grown."""
        if not self.is_unclean:
            return False
        headers = self.index_headers.items()
        return (
            lock_is_held(StorePaths(self._root).lock, env=self._env) is True
            or self.has_grown(log)
            or any(index_header(path, self._env) != header for path, header in headers)
        )


def checkpoint_bytes(root: str, env: Env) -> bytes | None:
    """Returns the bytes of the checkpoint of the store at `root`, None if it cannot be read."""
    path = StorePaths(root).checkpoint
    try:
        if env.is_file(path) and env.size_bytes(path) <= limits.CHECKPOINT_SIZE_BYTES_MAX:
            return env.read_file(path, limits.CHECKPOINT_SIZE_BYTES_MAX)
    except (MissingFileError, UnreadableError):
        pass  # the check itself reports it
    return None


def index_header(path: str, env: Env) -> tuple[int, ...]:
    """Returns the header fields of an IndexFile, none if it cannot be read or is too short."""
    try:
        with env.open_read(path) as file:
            data = file.read_at(0, INDEX_HEADER.size_bytes)
    except (MissingFileError, UnreadableError):
        return ()
    return INDEX_HEADER.struct.unpack(data) if len(data) == INDEX_HEADER.size_bytes else ()
