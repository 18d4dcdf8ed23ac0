"""The records of a planned split, found again after a broker has removed or replaced its segment:
by their offsets, in the segments that the partition has now."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from logdex.errors import NotAStoreError, VanishedError
from logdex.io.env import Env
from logdex.io.open_files import OpenFiles
from logdex.kafka.directory.partition_files import open_segments
from logdex.kafka.directory.recognise import KafkaPath, KafkaPathKind, require_kafka
from logdex.kafka.read.prune import SegmentPart, prune
from logdex.kafka.read.read_filter import ReadFilter
from logdex.kafka.read.steady import PartitionView
from logdex.kafka.settings.log_config import LogConfig


def parts_now(path: str, topic: str, partition: int, wanted: ReadFilter, env: Env) -> Iterator[SegmentPart]:
    """Yields the parts of the partition's segments that can hold the records of `wanted`, as the
    segments are now. `path` is that of a .log of the partition, which may be gone.

    Raises `VanishedError` if the partition's directory is gone.
    """
    found = _partition_of(path, env)
    files = OpenFiles(env)
    segments = open_segments(found, LogConfig(), env, files)
    try:
        start = segments[0].base_offset if segments else 0
        view = PartitionView(topic, partition, segments, env, start, wanted.end_offset or 0)
        yield from prune(view, wanted)
    finally:
        for segment in segments:
            segment.close()
        files.close()


def _partition_of(path: str, env: Env) -> KafkaPath:
    directory = posixpath.dirname(path) or "."
    if env.exists(directory):
        try:
            found = require_kafka(directory, env=env)
        except NotAStoreError:  # no segment is left, or its partition has a mark
            found = None
        if found is not None and found.kind is KafkaPathKind.PARTITION:
            return found
    raise VanishedError("the segment's partition was removed meanwhile", path=path)
