"""The column of bodies as their producers sent them: compressed ones are decompressed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdex.errors import CorruptError
from logdex.layout.rocketmq import SYS_FLAG_COMPRESSED
from logdex.rocketmq.commit_log.commit_log import CommitLogFile
from logdex.rocketmq.message.body import decompress

NEEDED_COLUMNS = ("sys_flag", "physical_offset")
"""The columns that a batch must have beside ``body``."""

PART_SIZE_BYTES = 16 << 20
"""So many bytes of decompressed bodies end a part of a batch."""


def with_plain_bodies(
    batch: pa.RecordBatch, file: CommitLogFile, on_damage: Callable[[CorruptError], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields a batch of messages of one file, with decompressed bodies, in parts. Raises
    `CorruptError` for a body that cannot be decompressed; with `on_damage`, that is called with the
    error, and the body is null."""

    def instead(error: CorruptError, _offset: int, _stored: bytes) -> None:
        if on_damage is None:
            raise error
        on_damage(error)

    return decompressed(batch, lambda offset: (file.path, offset - file.start_offset), instead)


def decompressed(
    batch: pa.RecordBatch,
    place_of: Callable[[int], tuple[str, int]],
    instead: Callable[[CorruptError, int, bytes], bytes | None],
) -> Iterator[pa.RecordBatch]:
    """Yields a batch with decompressed bodies, in parts: one ends behind the body with which those
    that were compressed take `PART_SIZE_BYTES`. Only compressed bodies are touched, one by one.

    `place_of` returns the path and the position of a physical offset. Where a body cannot be
    decompressed, it is what `instead` returns for the error, the message's physical offset and the
    stored body.
    """
    flags = batch.column("sys_flag").to_numpy()
    bodies, offsets = batch.column("body"), batch.column("physical_offset").to_numpy()
    begin, size, rows, plain = 0, 0, list[int](), list[bytes | None]()
    for row in np.flatnonzero(flags & SYS_FLAG_COMPRESSED).tolist():
        offset, stored = int(offsets[row]), bodies[row].as_py()
        path, position = place_of(offset)
        try:
            body: bytes | None = decompress(stored, int(flags[row]), path=path, position=position)
        except CorruptError as error:
            body = instead(error, offset, stored)
        rows.append(row - begin)
        plain.append(body)
        size += len(body or b"")
        if size > PART_SIZE_BYTES:
            yield _replaced(batch.slice(begin, row + 1 - begin), rows, plain)
            begin, size, rows, plain = row + 1, 0, [], []
    if begin < len(batch):
        yield _replaced(batch.slice(begin), rows, plain)


def _replaced(batch: pa.RecordBatch, rows: list[int], plain: list[bytes | None]) -> pa.RecordBatch:
    """Returns a batch with the bodies `plain` in some rows."""
    if not rows:
        return batch
    mask = np.zeros(len(batch), np.bool_)
    mask[rows] = True
    made = pc.replace_with_mask(batch.column("body"), pa.array(mask), pa.array(plain, pa.binary()))
    return batch.set_column(batch.schema.get_field_index("body"), "body", made)
