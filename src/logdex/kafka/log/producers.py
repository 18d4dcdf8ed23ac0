"""The producer state of an open log, and its producer snapshots.

Source: Kafka's ProducerStateManager (its files), UnifiedLog.rebuildProducerState.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection
from copy import copy

from logdex.errors import CorruptError
from logdex.io.env import Env
from logdex.kafka.files.file_names import DELETED_SUFFIX, SNAPSHOT_SUFFIX, offset_file_name, offsets_of
from logdex.kafka.log.load_report import LoadReport, LoadStep
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kafka.segment.log_segments import LogSegments
from logdex.kafka.state.producer_snapshot import load_producer_snapshot, write_producer_snapshot
from logdex.kafka.state.producer_state import ProducerStates


class LogProducers:
    """`states`, and the snapshot files in the directory `path`. Not thread-safe.

    A snapshot is synced before it is renamed into place. The caller syncs a removal by `sync_dir`
    where it matters: a snapshot from before a truncation must not reappear after a crash.
    """

    def __init__(self, path: str, *, expiration_ms: int, now_ms: Callable[[], int], env: Env) -> None:
        self.path = path
        self.states = ProducerStates(expiration_ms=expiration_ms)
        self._env = env
        self._now_ms = now_ms
        self._offsets: set[int] = set()
        self._last_snapshot_offset = 0
        self.reload()

    def without_states(self) -> LogProducers:
        """Another object over the same snapshots, without producers.

        It shares what is known of the directory, which is not listed again: a log may have many
        thousands of segments.
        """
        other = copy(self)
        other.states = ProducerStates(expiration_ms=self.states.expiration_ms)
        other._last_snapshot_offset = 0
        return other

    def reload(self) -> None:
        """Lists the snapshots in the directory again."""
        self._offsets = set(offsets_of(self._env.list_dir(self.path), SNAPSHOT_SUFFIX))

    @property
    def snapshot_offsets(self) -> list[int]:
        """The offsets of all snapshots, in ascending order."""
        return sorted(self._offsets)

    def file_path(self, offset: int) -> str:
        """The path of the snapshot at `offset`."""
        return posixpath.join(self.path, offset_file_name(offset, SNAPSHOT_SUFFIX))

    # -- writing ----------------------------------------------------------------------------------
    def take_snapshot(self) -> bool:
        """Writes the snapshot at the states' end offset, durably.

        Returns False if there already is one at that offset or a later one.
        """
        offset = self.states.map_end_offset
        if offset <= self._last_snapshot_offset:
            return False
        write_producer_snapshot(self.file_path(offset), self.states, env=self._env)
        self._offsets.add(offset)
        self._last_snapshot_offset = offset
        return True

    def remove(self, offset: int) -> None:
        """Removes the snapshot at `offset`, if it exists."""
        if offset in self._offsets:
            self._offsets.discard(offset)
            self._env.remove(self.file_path(offset))

    def remove_where(self, unwanted: Callable[[int], bool]) -> bool:
        """Removes the snapshots whose offset is `unwanted`, and returns whether there were any.

        The caller syncs the directory.
        """
        offsets = [offset for offset in self.snapshot_offsets if unwanted(offset)]
        for offset in offsets:
            self.remove(offset)
        return bool(offsets)

    def set_aside(self, offset: int) -> None:
        """Renames the snapshot at `offset`, if it exists, to ``.deleted``."""
        if offset in self._offsets:
            self._offsets.discard(offset)
            self._env.rename(self.file_path(offset), self.file_path(offset) + DELETED_SUFFIX)

    def remove_stray(self, base_offsets: Collection[int], report: LoadReport) -> None:
        """Removes the snapshots that are at no segment's base offset.

        The newest of them stays if no segment begins after it, because a clean shutdown wrote it.
        """
        self.reload()
        stray = [offset for offset in self.snapshot_offsets if offset not in base_offsets]
        if stray and stray[-1] >= max(base_offsets, default=0):
            stray.pop()
        for offset in stray:
            report.note(LoadStep.REMOVED, self.file_path(offset), "a snapshot at no segment's base offset")
            self.remove(offset)

    def start_at(self, offset: int) -> None:
        """Removes all producers and all snapshots; the next batch is at `offset`."""
        self.remove_where(lambda _: True)
        self.states.clear(offset)
        self._last_snapshot_offset = 0

    # -- loading ----------------------------------------------------------------------------------
    def rebuild(
        self,
        segments: LogSegments,
        *,
        log_start_offset: int,
        end_offset: int,
        trust_no_snapshot: bool = False,
        report: LoadReport | None = None,
    ) -> None:
        """Rebuilds `states` up to `end_offset` from the newest usable snapshot, and takes a
        snapshot there.

        With `trust_no_snapshot` a log without any snapshot has no producers, as the broker assumes
        for a cleanly closed log from before producer snapshots existed. Snapshots above
        `end_offset` or at most at `log_start_offset` are removed.
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
