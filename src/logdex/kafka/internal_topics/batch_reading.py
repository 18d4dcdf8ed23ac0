"""Every batch of a partition's segments, one by one: for the small internal topics.

Source: Kafka's FileRecords. What cannot be read is told, and reading goes on behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from logdex.errors import CorruptError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.batch.record_batch import RecordBatch, decode_batch
from logdex.kafka.files.file_names import LOG_SUFFIX, offset_file_name, offsets_of
from logdex.kafka.scan.scanner import BatchScanner, EndKind


def segment_paths(partition_path: str, *, env: Env = DEFAULT_ENV) -> list[str]:
    """The .log files of a partition directory, in the order of their base offsets."""
    offsets = offsets_of(env.list_dir(partition_path), LOG_SUFFIX)
    return [f"{partition_path}/{offset_file_name(offset, LOG_SUFFIX)}" for offset in offsets]


def read_batches(
    paths: Iterable[str], problems: list[CorruptError], *, env: Env = DEFAULT_ENV
) -> Iterator[RecordBatch]:
    """The batches of files one after the other, checksums checked. Where a file's good batches end before it does, and
    not in zeros, `problems` gets the error, and the next file follows."""
    for path in paths:
        scanner = BatchScanner(env=env)
        for window in scanner.scan_file(path):
            data: Any = window.data  # an array is a buffer; its type does not say so
            for position in window.columns.position.tolist():
                yield decode_batch(memoryview(data), position, path=path, check_crc=False)[0]
        if scanner.end.error is not None and scanner.end.kind is not EndKind.ZEROS:
            problems.append(scanner.end.error)
