"""The producers of an open log, and the snapshots in its directory that they are loaded from.

Source: Kafka's ProducerStateManager (its files), UnifiedLog.rebuildProducerState.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection

from logdex.errors import CorruptError
from logdex.io.env import Env
from logdex.kafka.files.file_names import DELETED_SUFFIX, SNAPSHOT_SUFFIX, offset_file_name, offsets_of
from logdex.kafka.log.load_report import LoadReport, LoadStep
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kafka.segment.log_segments import LogSegments
from logdex.kafka.state.producer_snapshot import load_producer_snapshot, write_producer_snapshot
from logdex.kafka.state.producer_state import ProducerStates


class LogProducers:
    """`states` and the snapshot files of the directory `path`. Calls come from one thread at a time.

    Snapshots are synced before their names count, and their removal is synced by `sync_dir` where it matters: one of a
    history that was truncated must not come back after a crash.
    """

    def __init__(self, path: str, *, expiration_ms: int, now_ms: Callable[[], int], env: Env) -> None:
        self.path = path
        self.states = ProducerStates(expiration_ms=expiration_ms)
        self._env = env
        self._now_ms = now_ms
        self._offsets: set[int] = set()
        self._last_snapshot_offset = 0
        self.reload()

    def reload(self) -> None:
        """Looks which snapshots there are."""
        self._offsets = set(offsets_of(self._env.list_dir(self.path), SNAPSHOT_SUFFIX))

    @property
    def snapshot_offsets(self) -> list[int]:
        """Offsets that there is a snapshot of, rising."""
        return sorted(self._offsets)

    def file_path(self, offset: int) -> str:
        """The name of the snapshot at `offset`."""
        return posixpath.join(self.path, offset_file_name(offset, SNAPSHOT_SUFFIX))

    # -- writing -------------------------------------------------------------------------------------------------------
    def take_snapshot(self) -> bool:
        """Writes the snapshot of the states at their end offset, on disk when this returns; False if there is one of
        that offset or a later one already."""
        offset = self.states.map_end_offset
        if offset <= self._last_snapshot_offset:
            return False
        write_producer_snapshot(self.file_path(offset), self.states, env=self._env)
        self._offsets.add(offset)
        self._last_snapshot_offset = offset
        return True

    def remove(self, offset: int) -> None:
        """Removes the snapshot at `offset`, if there is one."""
        if offset in self._offsets:
            self._offsets.discard(offset)
            self._env.remove(self.file_path(offset))

    def remove_where(self, unwanted: Callable[[int], bool]) -> bool:
        """Removes the snapshots whose offset is `unwanted`; whether there were any. The caller syncs the directory."""
        offsets = [offset for offset in self.snapshot_offsets if unwanted(offset)]
        for offset in offsets:
            self.remove(offset)
        return bool(offsets)

    def set_aside(self, offset: int) -> None:
        """Renames the snapshot at `offset`, if there is one, to ``.deleted``."""
        if offset in self._offsets:
            self._offsets.discard(offset)
            self._env.rename(self.file_path(offset), self.file_path(offset) + DELETED_SUFFIX)

    def remove_stray(self, base_offsets: Collection[int], report: LoadReport) -> None:
        """Removes the snapshots that are at no segment's base offset, but for the newest of them, which stays if no
        segment begins behind it: it is that of a clean close."""
        self.reload()
        stray = [offset for offset in self.snapshot_offsets if offset not in base_offsets]
        if stray and stray[-1] >= max(base_offsets, default=0):
            stray.pop()
        for offset in stray:
            report.note(LoadStep.REMOVED, self.file_path(offset), "a snapshot at no segment's base offset")
            self.remove(offset)

    def start_at(self, offset: int) -> None:
        """Forgets all producers and removes all snapshots; the next batch is at `offset`."""
        self.remove_where(lambda _: True)
        self.states.clear(offset)
        self._last_snapshot_offset = 0

    # -- loading -------------------------------------------------------------------------------------------------------
    def rebuild(
        self,
        segments: LogSegments,
        *,
        log_start_offset: int,
        end_offset: int,
        trust_no_snapshot: bool = False,
        report: LoadReport | None = None,
    ) -> None:
        """Sets `states` to what the log says up to `end_offset`, from the newest snapshot that is of use on, and
        snapshots it there.

        With `trust_no_snapshot` a log without any snapshot has no producers: so the broker takes a clean one of times
        before there were any. Snapshots above `end_offset` or not above `log_start_offset` go.
        """
        last_two = segments.base_offsets[-2:]
        if trust_no_snapshot and not self._offsets:
            for offset in sorted({*last_two, end_offset}):
                self.states.map_end_offset = offset
                self.take_snapshot()
            return
        removed = self.remove_where(lambda offset: offset > end_offset or offset <= log_start_offset)
        if removed:
            self._env.sync_dir(self.path)
        self._load_newest(log_start_offset, report)
        if end_offset > self.states.map_end_offset:
            self._replay(segments, log_start_offset, end_offset, last_two)
        self.states.map_end_offset = end_offset
        self.take_snapshot()

    def _load_newest(self, log_start_offset: int, report: LoadReport | None) -> None:
        for offset in reversed(self.snapshot_offsets):
            try:
                loaded = load_producer_snapshot(self.file_path(offset), env=self._env)
            except CorruptError as error:
                if report is not None:
                    report.note(LoadStep.REMOVED, error.path, error.message)
                self.remove(offset)
                continue
            self.states.load(loaded, offset, now_ms=self._now_ms())
            self._last_snapshot_offset = offset
            return
        self.states.clear(log_start_offset)
        self._last_snapshot_offset = log_start_offset

    def _replay(self, segments: LogSegments, log_start_offset: int, end_offset: int, snapshot_at: list[int]) -> None:
        scanner = BatchScanner(check_crc=False, env=self._env)
        for segment in segments.values(self.states.map_end_offset, end_offset):
            start = max(segment.base_offset, self.states.map_end_offset, log_start_offset)
            self.states.map_end_offset = start
            if segment.base_offset in snapshot_at:
                self.take_snapshot()
            found = segment.locate(start)
            if found is None:
                continue
            last = segment.locate(end_offset)
            stop = segment.size_bytes if last is None else last.position
            for window in scanner.scan_file(segment.log.path, found.position, stop):
                self.states.add_of(window.columns, segment.log.path)
