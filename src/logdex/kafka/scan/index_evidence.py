"""Uses a segment's .index to show that a run of batches belongs to the log.

An entry holds the position of a batch of the log and an offset in it, or, if an older broker wrote
it, the last offset of the append that begins with that batch. If both match batches of the run, the
run belongs to the log. An entry that matches no batch shows nothing.
"""

from __future__ import annotations

import posixpath

import numpy as np
import numpy.typing as npt

from logdex import limits
from logdex.errors import StoreError
from logdex.io.env import Env
from logdex.io.mapped.byte_array import ByteArray
from logdex.kafka.files.file_names import INDEX_SUFFIX, LOG_SUFFIX, offset_file_name, parse_offset_file
from logdex.kafka.scan.batch_runs import BatchRun
from logdex.kafka.scan.scanner import BatchScanner
from logdex.layout.kafka import OFFSET_INDEX_ENTRY


class IndexEvidence:
    """The .index beside the .log at `path`. It is read on first use. Not thread-safe."""

    def __init__(self, path: str, env: Env) -> None:
        self._path = path
        self._env = env
        self._entries: npt.NDArray[np.int64] | None = None

    def bears_out(self, data: ByteArray, run: BatchRun) -> bool:
        """Whether an entry matches a batch of the run."""
        if self._entries is None:
            self._entries = self._read()
        entries = self._entries[(self._entries[:, 1] >= run.start) & (self._entries[:, 1] < run.end)]
        if not len(entries):
            return False
        scanner = BatchScanner(check_crc=False, env=self._env, unreadable_is_damage=True)
        for window in scanner.scan_bytes(data, run.start, run.end):
            columns = window.columns
            at = np.searchsorted(columns.position, entries[:, 1])
            known = at < len(columns.position)
            at, these = at[known], entries[known]
            is_there = columns.position[at] == these[:, 1]
            ends_there = (these[:, 0] <= columns.last_offset[at]) | np.isin(these[:, 0], columns.last_offset)
            if (is_there & (columns.base_offset[at] <= these[:, 0]) & ends_there).any():
                return True
        return False

    def _read(self) -> npt.NDArray[np.int64]:
        """Returns (offset, position) of all entries, or none if no .index can be read."""
        none = np.empty((0, 2), np.int64)
        folder, name = posixpath.split(self._path)
        parsed = parse_offset_file(name)
        if parsed is None or parsed[1] != LOG_SUFFIX:
            return none
        path = posixpath.join(folder, offset_file_name(parsed[0], INDEX_SUFFIX))
        try:
            raw = self._env.read_file(path, limits.INDEX_SIZE_BYTES_MAX)
        except StoreError:
            return none
        size = OFFSET_INDEX_ENTRY.size_bytes
        found = np.frombuffer(raw[: len(raw) // size * size], ">i4").reshape(-1, 2).astype(np.int64)
        return found[found.any(axis=1)] + (parsed[0], 0)
