"""Reads records as Arrow columns: checks, decompresses and decodes in one pass and bounded memory.

Reading ends where a scan ends (`logdex.kafka.scan.scanner`): at the end of the file, at an
incomplete last batch, or at zeros. A damaged batch raises a located error, or is passed to a
callback and skipped.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from logdex import limits
from logdex.frames.arrow import pa
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.record_lock import Identity
from logdex.kafka.columns.read_order import OffsetRange, ReadOrder
from logdex.kafka.columns.read_steps import names_of, open_data, read_steps
from logdex.kafka.columns.record_decoder import OnBadBatch, RecordDecoder
from logdex.kafka.columns.record_window import RECORD_COLUMNS as RECORD_COLUMNS
from logdex.kafka.columns.record_window import record_schema as record_schema
from logdex.kafka.scan.resume import LogResume
from logdex.kafka.scan.scanner import ScanEnd

WINDOW_BYTES = 4 << 20


def read_record_batches(
    path_or_data: str | bytes | ByteArray,
    *,
    start: int = 0,
    stop: int | None = None,
    columns: Iterable[str] | None = None,
    check_crc: bool = True,
    skip_control: bool = True,
    window_bytes: int = WINDOW_BYTES,
    on_bad_batch: OnBadBatch | None = None,
    decompressed_size_bytes_max: int = limits.BATCH_DECOMPRESSED_SIZE_BYTES_MAX,
    path: str | None = None,
    identity: Identity | None = None,
    offsets: OffsetRange | None = None,
    plain: bool = False,
    env: Env = DEFAULT_ENV,
) -> Generator[pa.RecordBatch, None, ScanEnd]:
    """Yields the records of the batches that begin in bytes [start, stop) as Arrow batches.

    The input is a .log file or bytes in memory, which errors call `path`. `start` is the first byte
    of a batch. `columns` selects columns of `RECORD_COLUMNS`, in the given order; others are not
    decoded. An Arrow batch has at most about `window_bytes` bytes of keys, of values and of
    headers, or one batch of the log. Memory is bounded by that and by the largest batch, which must
    not exceed `decompressed_size_bytes_max`. With `identity`, `VanishedError` is raised if another
    file has the path by now. With `offsets`, a batch whose offset contradicts its neighbours' or
    that range is damaged too. With `plain`, records that are decoded one by one come as
    `PlainRecords`, with all fields.

    Raises `CorruptError` (after the records before it) for a damaged batch. With `on_bad_batch`,
    that is called with the error, and reading resumes at the next good batch. Returns the scan's
    end: where and why the good batches end.
    """
    names = names_of(columns, RECORD_COLUMNS)
    with open_data(path_or_data, identity, env) as data:
        name = path_or_data if isinstance(path_or_data, str) else path or "<bytes>"
        decoder = RecordDecoder(
            data,
            name,
            names,
            skip_control=skip_control,
            window_bytes=window_bytes,
            on_bad_batch=on_bad_batch,
            size_bytes_max=decompressed_size_bytes_max,
            plain=plain,
        )
        resume = LogResume(data, name, env)
        order = None if offsets is None else ReadOrder(data, name, offsets, env)
        end = data.size if stop is None else stop
        return (yield from read_steps(data, name, start, end, check_crc, decoder, resume, order))
