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
    """Returns a batch of messages of one file, with decompressed bodies. Raises `CorruptError` for
    one that cannot be decompressed; with `on_damage`, that is called with the error, and the body
    is null."""

    def instead(error: CorruptError, _offset: int, _stored: bytes) -> None:
        if on_damage is None:
            raise error
        on_damage(error)

    return decompressed(batch, lambda offset: (file.path, offset - file.start_offset), instead)


def decompressed(
    batch: pa.RecordBatch,
    place_of: Callable[[int], tuple[str, int]],
    instead: Callable[[CorruptError, int, bytes], bytes | None],
) -> pa.RecordBatch:
    """Returns a batch with decompressed bodies. Only compressed ones are touched, one by one.

    `place_of` returns the path and the position of a physical offset. Where a body cannot be
    decompressed, it is what `instead` returns for the error, the message's physical offset and the
    stored body.
    """
    flags = batch.column("sys_flag").to_numpy()
    rows = np.flatnonzero(flags & SYS_FLAG_COMPRESSED)
    if not len(rows):
        return batch
    bodies, offsets = batch.column("body"), batch.column("physical_offset").to_numpy()
    plain: list[bytes | None] = []
    for row in rows.tolist():
        offset, stored = int(offsets[row]), bodies[row].as_py()
        path, position = place_of(offset)
        try:
            plain.append(decompress(stored, int(flags[row]), path=path, position=position))
        except CorruptError as error:
            plain.append(instead(error, offset, stored))
    mask = np.zeros(len(batch), np.bool_)
    mask[rows] = True
    made = pc.replace_with_mask(bodies, pa.array(mask), pa.array(plain, pa.binary()))
    return batch.set_column(batch.schema.get_field_index("body"), "body", made)
