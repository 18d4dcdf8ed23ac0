"""Reads every batch of a partition's segments, one by one, for the small internal topics.

Source: Kafka's FileRecords. Damage is reported, and reading goes on behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from logdex.errors import CorruptError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.batch.record_batch import RecordBatch, decode_batch
from logdex.kafka.files.file_names import LOG_SUFFIX, offset_file_name, offsets_of
from logdex.kafka.scan.resume import LogResume
from logdex.kafka.scan.scanner import BatchScanner, EndKind, map_log


def segment_paths(partition_path: str, *, env: Env = DEFAULT_ENV) -> list[str]:
    """The .log files of a partition directory, ordered by base offset."""
    offsets = offsets_of(env.list_dir(partition_path), LOG_SUFFIX)
    return [f"{partition_path}/{offset_file_name(offset, LOG_SUFFIX)}" for offset in offsets]


def read_batches(
    paths: Iterable[str], problems: list[CorruptError], *, env: Env = DEFAULT_ENV
) -> Iterator[RecordBatch]:
    """Yields the batches of the files in order, with CRCs verified.

    Damage is added to `problems`, zeros at a file's end are not.
    """
    for path in paths:
        scanner, start = BatchScanner(env=env), 0
        with map_log(path, env) as mapped:
            data: Any = mapped.array  # an array is a buffer, but its type does not state it
            resume = LogResume(data, path, env)
            while start >= 0:
                for window in scanner.scan_bytes(data, start, path=path):
                    for position in window.columns.position.tolist():
                        yield decode_batch(memoryview(data), position, path=path, check_crc=False)[0]
                if scanner.end.error is not None and scanner.end.kind is not EndKind.ZEROS:
                    problems.append(scanner.end.error)
                start = resume.behind(scanner.end).position
