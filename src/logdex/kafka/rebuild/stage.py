"""Stage files: the batches that phase 1 of a rebuild passes to phase 2, for producer state and
leader epochs.

Most batches do not matter, because later ones supersede them. The others are kept as rows of all
columns. A stage file exists during one run only, so its layout (native byte order) may change
between versions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from logdex.io.env import Env, WriteFile
from logdex.kafka.state.leader_epochs import UNDEFINED_EPOCH
from logdex.kafka.state.producer_batches import telling_places
from logdex.kernels.kafka.batch_columns import WIDE_COLUMNS, BatchColumns
from logdex.layout.kafka import MAGIC_V2

_ROW = np.dtype([(name, np.int64 if name in WIDE_COLUMNS else np.int32) for name in BatchColumns._fields])
_ROWS_MAX = 8_192
"""The number of rows read at a time: as many as a window of the scan has."""


@dataclass(frozen=True, slots=True)
class StagedRows:
    """A finished stage file."""

    path: str
    rows: int


class StageWriter:
    """Writes the stage file of a segment, given its windows in log order. For one thread.

    The file is created with its first row. The context manager closes it.
    """

    def __init__(self, path: str, env: Env) -> None:
        self._path = path
        self._env = env
        self._file: WriteFile | None = None
        self._rows = 0
        self._epoch = UNDEFINED_EPOCH

    def put(self, columns: BatchColumns) -> None:
        """Adds one window."""
        places: npt.NDArray[np.intp] = np.union1d(telling_places(columns), self._epoch_rises(columns))
        if not len(places):
            return
        if self._file is None:
            self._file = self._env.open_write(self._path, exclusive=True)
        rows = np.empty(len(places), _ROW)
        for name in BatchColumns._fields:
            rows[name] = getattr(columns, name)[places]
        self._file.write_at(self._rows * _ROW.itemsize, rows.view(np.uint8))
        self._rows += len(rows)

    def _epoch_rises(self, columns: BatchColumns) -> npt.NDArray[np.intp]:
        """The places of batches whose leader epoch is above all earlier ones of the segment."""
        epochs = np.where(columns.magic >= MAGIC_V2, columns.leader_epoch, UNDEFINED_EPOCH).astype(np.int64)
        highest = np.maximum.accumulate(np.append(self._epoch, epochs))
        self._epoch = int(highest[-1])
        return np.flatnonzero(epochs > highest[:-1])

    def finish(self) -> StagedRows | None:
        """The finished file; None if no batch mattered."""
        return StagedRows(self._path, self._rows) if self._rows else None

    def __enter__(self) -> StageWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def read_stage(staged: StagedRows | None, env: Env) -> Iterator[BatchColumns]:
    """Yields the rows of a stage file as windows of columns."""
    if staged is None:
        return
    with env.open_read(staged.path) as file:
        for first in range(0, staged.rows, _ROWS_MAX):
            count = min(_ROWS_MAX, staged.rows - first)
            rows = np.frombuffer(file.read_at(first * _ROW.itemsize, count * _ROW.itemsize), _ROW)
            yield BatchColumns(*(np.ascontiguousarray(rows[name]) for name in BatchColumns._fields))
