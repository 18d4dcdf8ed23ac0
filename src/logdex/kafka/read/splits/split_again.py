"""The records of a planned split, found again after a broker has removed or replaced its segment:
by their offsets, in the segments that the partition has now."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from logdex.errors import CorruptError, NotAStoreError, VanishedError
from logdex.io.env import Env
from logdex.io.open_files import OpenFiles
from logdex.kafka.directory.ids import PartitionIds
from logdex.kafka.directory.partition_files import open_segments
from logdex.kafka.directory.recognise import KafkaPath, KafkaPathKind, require_kafka
from logdex.kafka.read.prune import SegmentPart, prune
from logdex.kafka.read.read_filter import ReadFilter
from logdex.kafka.read.steady import PartitionView
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.settings.log_config import LogConfig


def parts_now(
    path: str, topic: str, partition: int, wanted: ReadFilter, env: Env, gone: list[str]
) -> Iterator[SegmentPart]:
    """Yields the parts of the partition's segments that can hold the records of `wanted`, as the
    segments are now. `path` is that of a .log of the partition, which may be gone. If the partition
    does not have all of the offsets now, that is added to `gone`.

    Raises `VanishedError` if the partition's directory is gone.
    """
    found = _partition_of(path, env)
    files = OpenFiles(env)
    segments = open_segments(found, LogConfig(), env, files)
    try:
        start = segments[0].base_offset if segments else 0
        gone += _gone(segments, wanted)
        view = PartitionView(topic, partition, segments, env, start, wanted.end_offset or 0)
        yield from prune(view, wanted)
    finally:
        for segment in segments:
            segment.close()
        files.close()


def is_created_again(directory: str, topic_id: str | None, env: Env) -> bool:
    """Whether the topic of a partition's directory has another id by now than `topic_id`."""
    return topic_id is not None and PartitionIds.of(directory, env).topic_id not in (None, topic_id)


def _gone(segments: list[LogSegment], wanted: ReadFilter) -> Iterator[str]:
    """Yields what some segments do not have of the offsets that a filter names, in words."""
    first, end = wanted.offset or 0, wanted.end_offset
    if not segments or segments[0].base_offset > first:
        begin = segments[0].base_offset if segments else "none"
        yield f"a broker has removed records meanwhile: from offset {first} on they are wanted, the first is {begin}"
    elif end is not None and segments[-1].base_offset < end:
        try:
            last = segments[-1].log.last_header()
        except CorruptError:
            return  # reading tells of that
        log_end = segments[-1].base_offset if last is None else last.last_offset + 1
        if log_end < end:
            yield f"the log was cut meanwhile: it ends at offset {log_end}, records up to {end} are wanted"


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
