"""The column of bodies as their producers sent them: compressed ones are decompressed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdex.errors import CorruptError
from logdex.layout.rocketmq import SYS_FLAG_COMPRESSED
from logdex.rocketmq.commit_log.commit_log import CommitLogFile
from logdex.rocketmq.message.body import decompress

NEEDED_COLUMNS = ("sys_flag", "physical_offset")
"""The columns that a batch must have beside ``body``."""


def with_plain_bodies(
    batch: pa.RecordBatch, file: CommitLogFile, on_damage: Callable[[CorruptError], None] | None = None
) -> pa.RecordBatch:
    """Returns a batch of messages of one file, with decompressed bodies. Only compressed ones are
    touched, one by one. Raises `CorruptError` for one that cannot be decompressed; with
    `on_damage`, that is called with the error, and the body is null."""
    flags = batch.column("sys_flag").to_numpy()
    rows = np.flatnonzero(flags & SYS_FLAG_COMPRESSED)
    if not len(rows):
        return batch
    bodies, offsets = batch.column("body"), batch.column("physical_offset").to_numpy()
    plain: list[bytes | None] = []
    for row in rows.tolist():
        position = int(offsets[row]) - file.start_offset
        try:
            plain.append(decompress(bodies[row].as_py(), int(flags[row]), path=file.path, position=position))
        except CorruptError as error:
            if on_damage is None:
                raise
            on_damage(error)
            plain.append(None)
    mask = np.zeros(len(batch), np.bool_)
    mask[rows] = True
    made = pc.replace_with_mask(bodies, pa.array(mask), pa.array(plain, pa.binary()))
    return batch.set_column(batch.schema.get_field_index("body"), "body", made)
