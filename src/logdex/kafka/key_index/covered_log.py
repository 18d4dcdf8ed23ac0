"""Identifies the bytes of a .log that a key index was built from, by the headers of their batches.

A batch's header has its offset, its size and the checksum of its records. So logs of the same size
with other records differ in their headers. The headers of the last batches have a checksum of their
own, because these change whenever a log is cut and grows again, or is compacted: to compare them
takes the same small time for every size of log. Source: ``docs/formats/kafka-key-index.md``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from logdex.io.env import Env
from logdex.io.mapped.byte_array import ByteArray
from logdex.kafka.scan.scanner import BatchScanner, BatchWindow
from logdex.layout.kafka import KEY_INDEX_TAIL_SIZE_BYTES, RECORD_BATCH
from logdex.primitives.crc32c import crc32c

_HEADER_SIZE = RECORD_BATCH.size_bytes
_WINDOW_BATCHES = 1024


class CoveredLog(NamedTuple):
    """What a key index states of the first `log_size` bytes of a .log, which are whole batches."""

    log_size: int
    batch_count: int
    headers_crc: int
    """The CRC-32C of the headers of all batches."""
    tail_position: int
    """Where the first of the last batches begins; 0 without a batch."""
    tail_headers_crc: int
    """The CRC-32C of the headers of the batches from there on."""


def read_covered_log(path: str, size_bytes: int, env: Env) -> CoveredLog:
    """What the batch headers of the first `size_bytes` bytes of a .log state.

    `log_size` is less than `size_bytes` where no whole batch ends there. No checksum of a batch is
    tested.
    """
    tail_position, tail_from = 0, size_bytes - KEY_INDEX_TAIL_SIZE_BYTES
    headers_crc, scanner = 0, BatchScanner(False, _WINDOW_BATCHES, env, unreadable_is_damage=True)
    for window in scanner.scan_file(path, stop=size_bytes):
        headers_crc = crc32c(_headers(window), headers_crc)
        if tail_position < tail_from:  # the first batch from there on, or the last one
            positions = window.columns.position
            tail_position = int(positions[min(int(np.searchsorted(positions, tail_from)), window.count - 1)])
    batches, end = scanner.batches, scanner.end.position
    return CoveredLog(end, batches, headers_crc, tail_position, _headers_crc(path, tail_position, end, scanner))


def tail_is_in(stated: CoveredLog, path: str, env: Env) -> bool:
    """Whether the last of the batches that an index covers are still where they were in a .log."""
    if env.size_bytes(path) < stated.log_size:
        return False
    scanner = BatchScanner(False, _WINDOW_BATCHES, env)
    crc = _headers_crc(path, stated.tail_position, stated.log_size, scanner)
    return scanner.end.position == stated.log_size and crc == stated.tail_headers_crc


def _headers_crc(path: str, start: int, stop: int, scanner: BatchScanner) -> int:
    """The CRC-32C of the headers of the batches that begin in bytes [start, stop) of a .log."""
    crc = 0
    for window in scanner.scan_file(path, start, stop):
        crc = crc32c(_headers(window), crc)
    return crc


def _headers(window: BatchWindow) -> memoryview:
    """The headers of a window's batches, one after the other; of a batch that is shorter than a
    header of magic 2, all of it."""
    positions, sizes = window.columns.position, window.columns.size
    if (sizes >= _HEADER_SIZE).all():
        joined: ByteArray = window.data[positions[:, None] + np.arange(_HEADER_SIZE)].reshape(-1)
    else:
        ends = positions + np.minimum(sizes, _HEADER_SIZE)
        joined = np.concatenate([window.data[at:end] for at, end in zip(positions, ends, strict=True)])
    return joined.data
