"""The records of a Kafka path that a conversion reads."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logdex.convert.sources.kafka import LogDirSource
    from logdex.kafka.directory.recognise import KafkaPath


def make(
    found: KafkaPath,
    settings: Mapping[str, Any],
    *,
    topic: str | None = None,
    partition: int | None = None,
    begin_ms: int | None = None,
    end_ms: int | None = None,
    offset: int | None = None,
    control: bool = False,
    isolation: str | None = None,
) -> LogDirSource:
    """Returns the records that pass the filter."""
    from logdex.convert.sources.kafka import LogDirSource
    from logdex.io.env import DEFAULT_ENV
    from logdex.kafka.directory.recognise import KafkaPathKind
    from logdex.kafka.read.read_filter import ReadFilter
    from logdex.kafka.snapshot.log_dir_snapshot import open_kafka

    wanted = ReadFilter(begin_ms=begin_ms, end_ms=end_ms, offset=offset, control=control, isolation=isolation)
    if topic is not None or partition is not None:
        with open_kafka(found, **settings) as snapshot:
            snapshot.scan(topic=topic, partition=partition)  # refuses what is not there
    path = DEFAULT_ENV.real_path(found.path)
    if found.kind is KafkaPathKind.LOG:  # what it is a link to may have no name of a segment
        home, name = posixpath.split(found.path)
        path = f"{DEFAULT_ENV.real_path(home or '.')}/{name}"
    return LogDirSource(path, topic, partition, wanted, settings)
