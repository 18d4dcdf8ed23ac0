"""What the last clean close of a store by Logdex knew of it: which queues there are and where they
end, and in which parts of the log no message has keys.

No file of a broker says either, and a scan of the log is too long for an opening. The file
``.logdex-closed.json`` in the store's root says it; a broker does not look at it. It counts as long
as the log still has the bytes that were its last ones: a log that goes on, or of which old files
were removed, still has what the file says of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from logdex.errors import StoreError
from logdex.io.atomic_file import write_atomically
from logdex.io.env import Env
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.index_file.index_file import IndexFile
from logdex.rocketmq.index_file.index_paths import list_index_files
from logdex.rocketmq.read.keys.index_coverage import KeylessParts
from logdex.rocketmq.read.results import OffsetRange
from logdex.rocketmq.settings.store_config import StoreConfig

FILE_NAME = ".logdex-closed.json"
_TAIL_BYTES = 4096
_SIZE_BYTES_MAX = 64 << 20
"""Of the file; a queue takes about 60 bytes. A larger one is passed over."""
_LIGHT_QUEUE_PREFIX = "%LMQ%"
"""Begins the topics of light queues, which a broker removes when nobody uses them."""


@dataclass(frozen=True, slots=True)
class ClosedState:
    """All offsets of the log are physical offsets."""

    min_offset: int
    end_offset: int
    tail_crc: int
    """The CRC-32 of the last bytes before `end_offset`."""
    queues: Mapping[str, tuple[int, int]]
    """The first and the next queue offset of each queue, by its folder below ``consumequeue/``."""
    keyless: Sequence[OffsetRange]
    """Parts in which no message with keys begins."""
    indexed: Sequence[OffsetRange]
    """The first and the last message with entries of each IndexFile. They tell of a lost file of
    which the messages have tags alone: whether those must have entries depends on who wrote
    them."""

    @staticmethod
    def read(root: str, log: CommitLog, end_offset: int, env: Env) -> ClosedState | None:
        """Reads the file of the store at `root`. None if there is none that is whole and of this
        log, which ends at `end_offset`."""
        path = f"{root}/{FILE_NAME}"
        try:
            if not env.is_file(path) or env.size_bytes(path) > _SIZE_BYTES_MAX:
                return None
            with env.open_read(path) as file:
                state = _parsed(file.read_at(0, _SIZE_BYTES_MAX))
            if state is None or not log.min_offset < state.end_offset <= end_offset:
                return None
            return state if _tail_crc(log, state.end_offset) == state.tail_crc else None
        except StoreError:
            return None  # less is known then

    def write(self, root: str, env: Env) -> None:
        """Replaces the file, durably."""
        table = {
            "minPhyOffset": self.min_offset,
            "endPhyOffset": self.end_offset,
            "tailCrc32": self.tail_crc,
            "queues": self.queues,
            "keyless": self.keyless,
            "indexed": self.indexed,
        }
        write_atomically(f"{root}/{FILE_NAME}", json.dumps(table | {"crc32": _crc(table)}).encode(), env=env)

    def has_more(
        self, queues: Iterable[ConsumeQueue], min_offset: int, is_deleted: Callable[[bytes], bool], root: str
    ) -> bool:
        """Whether one of the store's `queues` has lost entries or files since, or is missing. The
        log begins at `min_offset` now. Queues of deleted topics lack nothing, nor do those of a
        topic that was deleted and made again, of which one queue at least has messages since."""
        found = {queue.directory.removeprefix(f"{StorePaths(root).consume_queue}/"): queue for queue in queues}
        suspects = [
            folder
            for folder, (first, following) in self.queues.items()
            if self._is_less(found.get(folder), first, following, min_offset)
            and not folder.startswith(_LIGHT_QUEUE_PREFIX)
        ]
        if not suspects:
            return False
        renewed = {queue.topic for queue in found.values() if self._is_renewed(queue)}
        topics = {folder.rpartition("/")[0].encode("utf-8", "surrogateescape") for folder in suspects}
        return any(not is_deleted(topic) for topic in topics - renewed)

    def _is_less(self, queue: ConsumeQueue | None, first: int, following: int, min_offset: int) -> bool:
        if queue is None or queue.max_offset < following:
            return True
        return min_offset == self.min_offset and queue.start_offset > first  # no file has expired

    def _is_renewed(self, queue: ConsumeQueue) -> bool:
        """Whether a queue has begun anew since."""
        if queue.start_offset or not queue.max_offset:
            return False
        return queue.entry(0).physical_offset >= self.end_offset


def closed_state(
    paths: StorePaths,
    log: CommitLog,
    end_offset: int,
    queues: Mapping[str, tuple[int, int]],
    keyless: Iterable[OffsetRange],
    config: StoreConfig,
    env: Env,
) -> ClosedState | None:
    """The state of a store of which everything is dispatched and on disk; None if its log is empty.

    `queues` are all queues with their first and next queue offsets, `keyless` the parts that are
    known to have no message with keys. More of them lie between the IndexFiles.
    """
    if end_offset == log.min_offset:
        return None
    indexed = []
    for path in list_index_files(paths.index, env):
        with IndexFile(path, config, env=env) as file:
            if file.header.entry_count:
                indexed.append((file.header.begin_phy_offset, file.header.end_phy_offset))
    parts, last = list(keyless), log.min_offset - 1
    for begin, end in [*sorted(indexed), (end_offset, end_offset)]:
        parts.append((last + 1, begin))
        last = max(last, end)
    kept = tuple(part for part in KeylessParts(parts).parts if part[1] > log.min_offset)
    return ClosedState(log.min_offset, end_offset, _tail_crc(log, end_offset), queues, kept, indexed)


def _tail_crc(log: CommitLog, end_offset: int) -> int:
    start = max(end_offset - _TAIL_BYTES, log.min_offset)
    return crc32(log.read(start, end_offset - start))


def _parsed(data: bytes) -> ClosedState | None:
    try:
        table = json.loads(data)
        if table.pop("crc32") != _crc(table):
            return None
        queues = {str(folder): (int(first), int(following)) for folder, (first, following) in table["queues"].items()}
        keyless, indexed = (
            tuple((int(begin), int(end)) for begin, end in table[name]) for name in ("keyless", "indexed")
        )
        begin, end, crc = (int(table[name]) for name in ("minPhyOffset", "endPhyOffset", "tailCrc32"))
        return ClosedState(begin, end, crc, queues, keyless, indexed)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _crc(table: dict[str, Any]) -> int:
    """The CRC-32 of the rest of the file, in the form in which it is written."""
    return crc32(json.dumps(table).encode())
