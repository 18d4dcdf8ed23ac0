"""Whether a store has the topics, queues and offsets that the options of `rocketmq_store` name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from logdex.errors import MissingFileError
from logdex.rocketmq.read.get_message import QueueView
from logdex.rocketmq.read.read_filter import QueueRange
from logdex.rocketmq.snapshot.frozen_store import is_damaged
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.spark.sources.loss import Range, require_offsets
from logdex.spark.sources.rocketmq.offsets import Name, Queue
from logdex.spark.sources.table import ReadOptions


def unknown_names(snapshot: StoreSnapshot, names: Iterable[Name]) -> dict[Name, MissingFileError]:
    """Returns the error of each topic or queue that a store has not."""
    found: dict[Name, MissingFileError] = {}
    for name in names:
        try:
            snapshot.require_known(*name)
        except MissingFileError as error:
            found[name] = error
    return found


def require_known(unknown: Sequence[Mapping[Name, MissingFileError]]) -> None:
    """Raises an error that every one of some stores has found: for a topic, or for a queue that of
    a store with its topic."""
    for name in unknown[0] if unknown else ():
        if all(name in each for each in unknown):
            raise next((each[name] for each in unknown if (name[0], None) not in each), unknown[0][name])


def require_ranges(snapshot: StoreSnapshot, read: ReadOptions, ranges: Iterable[QueueRange]) -> Iterator[str]:
    """Yields a note per queue of the store that does not have all of the offsets that are wanted
    of it. With failOnDataLoss that is an error."""
    limits: dict[Queue, tuple[int | None, int | None]] = {}
    for each in ranges:
        begin, end = limits.get((each.topic, each.queue_id), (None, None))
        limits[each.topic, each.queue_id] = (
            begin if each.begin is None else each.begin,
            end if each.end is None else each.end,
        )
    for (topic, queue_id), (begin, end) in limits.items():
        there = _offsets(snapshot, topic, queue_id, max(begin or 0, end or 0))
        name = f"{snapshot.root}: {topic.decode('utf-8', 'backslashreplace')} {queue_id}"
        first, last = there[0] if begin is None else begin, there[1] if end is None else end
        note = require_offsets(read, name, (first, last), there)
        if note is not None:
            yield note


def _offsets(snapshot: StoreSnapshot, topic: bytes, queue_id: int, wanted_end: int) -> Range:
    """Returns the offsets [begin, end) of a queue by its ConsumeQueue. If more are wanted, the log
    may have them nevertheless: a broker writes it first."""
    log, valid = snapshot.commit_log, snapshot.valid_end
    end = log.end_offset if is_damaged(valid) else valid.offset
    try:
        queue = snapshot.consume_queue(topic, queue_id)
        view = QueueView.looking_again(queue, log.min_offset, end).info(log.min_offset)
        first, last = view.first_available_offset, view.max_offset
    except MissingFileError:
        first, last = -1, 0
    if wanted_end > last or first < 0:
        for batch in snapshot.scan(topic=topic, queue_id=queue_id, queue_offset=last).arrow_reader(["queue_offset"]):
            offsets = batch.column("queue_offset").to_pylist()
            first = offsets[0] if first < 0 and offsets else first
            last = max([last, *(offset + 1 for offset in offsets)])
    return max(first, 0), last
