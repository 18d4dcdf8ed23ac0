"""The messages of a RocketMQ store that a conversion reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logdex.convert.sources.rocketmq import StoreSource
    from logdex.rocketmq.recognise.store_path import StorePath


def make(
    found: StorePath,
    settings: Mapping[str, Any],
    *,
    topic: str | None = None,
    queue: int | None = None,
    begin_ms: int | None = None,
    end_ms: int | None = None,
    offset: int | None = None,
    physical_offset: int | None = None,
) -> StoreSource:
    """Returns the messages that pass the filter."""
    from logdex.convert.sources.rocketmq import StoreSource
    from logdex.io.env import DEFAULT_ENV
    from logdex.primitives.text import to_bytes
    from logdex.rocketmq.read.read_filter import ReadFilter, only_queue
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

    wanted = ReadFilter(
        topic=None if topic is None else to_bytes(topic),
        queue_ids=only_queue(queue),
        begin_ms=begin_ms,
        end_ms=end_ms,
        begin_offset=physical_offset,
        begin_queue_offset=offset,
    )
    if topic is not None or queue is not None:
        with StoreSnapshot(found, **settings) as snapshot:
            snapshot.require_known(topic, queue)
    return StoreSource(DEFAULT_ENV.real_path(found.path), wanted, settings)
