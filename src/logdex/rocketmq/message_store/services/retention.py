"""Removes what is too old: files of the CommitLog, then the files of ConsumeQueues and the
IndexFiles that only point before it.

Files are removed one after the other, the oldest first, each durably, so that a crash in between
leaves a log without a gap. The newest file of each kind stays. Source:
DefaultMessageStore.CleanCommitLogService, CleanConsumeQueueService;
MappedFileQueue.deleteExpiredFileByTime, deleteExpiredFileByOffset; IndexService.deleteExpiredFile.
"""

from __future__ import annotations

import posixpath
import threading
from dataclasses import dataclass

from logdex.errors import UsageError
from logdex.rocketmq.files.offset_files import OffsetFile
from logdex.rocketmq.index_file.index_file import IndexFile
from logdex.rocketmq.index_file.index_paths import list_index_files
from logdex.rocketmq.message_store.core import StoreCore
from logdex.rocketmq.message_store.derived.dispatch import Dispatch

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class ExpiredFiles:
    """What a call of `MessageStore.delete_expired` has removed, as paths, and where the log begins
    since."""

    commit_log_files: tuple[str, ...]
    queue_files: tuple[str, ...]
    index_files: tuple[str, ...]
    min_phy_offset: int


class RetentionService:
    """Removes expired files of one store. Thread-safe: `lock` is held meanwhile, and by who closes
    the store."""

    def __init__(self, core: StoreCore, dispatch: Dispatch) -> None:
        self._core, self._dispatch = core, dispatch
        self.lock = threading.RLock()

    def delete_expired(self, hours: float | None, disk_ratio: float | None, now_ms: int) -> ExpiredFiles:
        """See `MessageStore.delete_expired`."""
        for name, value in (("hours", hours), ("disk_ratio", disk_ratio)):
            if value is not None and (not isinstance(value, int | float) or not value >= 0):
                raise UsageError(f"{name} is {value!r}", hint="use a number from 0 on, or None for no limit")
        if disk_ratio is not None and disk_ratio > 1:
            raise UsageError(f"disk_ratio is {disk_ratio!r}", hint="it is a part of the disk, 0 to 1: 0.8 for 80 %")
        core, dispatch = self._core, self._dispatch
        with self.lock:
            core.require_usable()
            dispatch.run()
            dispatch.flush()
            with core.gate.excluding(), dispatch.lock:
                logs = self._remove_logs(hours, disk_ratio, now_ms)
                start = core.reader.min_offset
                core.look_at_disk()
                queues = dispatch.derived.queues.remove_expired(start)
                return ExpiredFiles(tuple(logs), tuple(queues), tuple(self._remove_index_files(start)), start)

    def _remove_logs(self, hours: float | None, disk_ratio: float | None, now_ms: int) -> list[str]:
        core, gone = self._core, list[str]()
        try:
            for file in core.reader.files:
                if file.end_offset > min(core.log.start_offset, self._dispatch.reput_from):
                    break
                if not self._is_expired(file, hours, disk_ratio, now_ms):
                    break
                core.env.remove(file.path)
                gone.append(file.path)
                core.env.sync_dir(core.log.directory)
        finally:
            with core.lock:  # who else lists the files holds it
                core.reader.refresh()
        return gone

    def _is_expired(self, file: OffsetFile, hours: float | None, disk_ratio: float | None, now_ms: int) -> bool:
        env = self._core.env
        if hours is not None and now_ms >= env.modified_ns(file.path) // 1_000_000 + hours * _HOUR_MS:
            return True
        return disk_ratio is not None and env.used_ratio(self._core.log.directory) > disk_ratio

    def _remove_index_files(self, min_phy_offset: int) -> list[str]:
        core, gone = self._core, list[str]()
        for path in list_index_files(core.paths.index, core.env)[:-1]:
            with IndexFile(path, core.config, env=core.env) as file:
                if file.header.end_phy_offset >= min_phy_offset:
                    break
            self._dispatch.derived.index.forget(path)
            core.env.remove(path)
            core.env.sync_dir(posixpath.dirname(path))
            gone.append(path)
        return gone
