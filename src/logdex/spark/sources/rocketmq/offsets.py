"""The options startingOffsets and endingOffsets of `rocketmq_store`: queue offsets, by topic and
queue. startingOffsetsByTimestamp and endingOffsetsByTimestamp have store times in their place;
startingPhysicalOffset and endingPhysicalOffset are numbers, for the CommitLog."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdex.errors import UsageError
from logdex.primitives.text import to_bytes
from logdex.primitives.wrong_questions import require_order, require_order_of_times
from logdex.rocketmq.read.read_filter import QueueRange
from logdex.spark.sources.options import Options, given_but_not_read

BEGIN_TIMES, END_TIMES = "startingOffsetsByTimestamp", "endingOffsetsByTimestamp"
BEGIN_PHYSICAL, END_PHYSICAL = "startingPhysicalOffset", "endingPhysicalOffset"
EARLIEST, LATEST = -2, -1
_EXAMPLE = '{"orders": {"0": 23, "1": -2}}'
_EXAMPLE_OF_TIMES = '{"orders": {"0": 1700000000000}}'

Queue = tuple[bytes, int]
Name = tuple[bytes, int | None]
"""A topic, and a queue of it or none."""
_ByQueue = tuple[tuple[bytes, int, int], ...]
"""(topic, queue id, queue offset); or a time in milliseconds in place of the offset."""


def queue_ranges(options: Options) -> tuple[QueueRange, ...]:
    """Returns what the options leave of the queues that they name. Raises `UsageError` for values
    that are not valid."""
    begins = _parse(options, "startingOffsets", EARLIEST, LATEST)
    ends = _parse(options, "endingOffsets", LATEST, EARLIEST)
    _require_order(require_order, "offset", begins, ends)
    return (*(QueueRange(*each) for each in begins), *(QueueRange(name, queue, end=end) for name, queue, end in ends))


def named_queues(options: Options, topic: str | None, queue_ids: Collection[int] | None) -> tuple[Name, ...]:
    """Returns the topics and the queues that the options name, `topic` and its queues first if it
    is given. Raises `UsageError` for a queue of another topic than that, or that is not one of
    `queue_ids`."""
    found: dict[Name, None] = {} if topic is None else {(to_bytes(topic), None): None}
    if topic is not None:
        found |= {(to_bytes(topic), queue): None for queue in sorted(queue_ids or ())}
    for name, least in (("startingOffsets", EARLIEST), ("endingOffsets", EARLIEST), (BEGIN_TIMES, 0), (END_TIMES, 0)):
        text = options.text(name) or ""
        if text.lstrip().startswith("{"):
            for each, queue, _ in _by_queue(text, least, options.wrong(name, _EXAMPLE)):
                found |= {(each, None): None, (each, queue): None}
    for named, queue_id in found:
        if queue_id is not None and queue_ids is not None and queue_id not in queue_ids:
            raise given_but_not_read(f"queue {queue_id} of {named.decode('utf-8', 'backslashreplace')!r}")
        if topic is not None and named != to_bytes(topic):
            raise given_but_not_read(f"the topic {named.decode('utf-8', 'backslashreplace')!r}")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class QueueTimes:
    """The store times to read, from `begins` on and before `ends`, of the queues that are named;
    everything of all others. A task compares each message; nothing is pruned by them."""

    begins: _ByQueue = ()
    ends: _ByQueue = ()

    @staticmethod
    def of(options: Options) -> QueueTimes:
        """Reads the options. Raises `UsageError` for values that are not valid."""
        found = QueueTimes(_times(options, BEGIN_TIMES), _times(options, END_TIMES))
        _require_order(require_order_of_times, "timestamp", found.begins, found.ends)
        return found

    def __bool__(self) -> bool:
        return bool(self.begins or self.ends)

    @property
    def needed_columns(self) -> tuple[str, ...]:
        """Returns the columns that `apply` needs."""
        return ("topic", "queue_id", "store_timestamp_ms") if self else ()

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows of a batch that are in the times."""
        if not self:
            return batch
        keep = np.ones(len(batch), np.bool_)
        topics, queues = batch.column("topic").cast(pa.binary()), batch.column("queue_id").to_numpy()
        times_ms = batch.column("store_timestamp_ms").to_numpy()
        for limits, is_begin in ((self.begins, True), (self.ends, False)):
            for topic, queue_id, limit in limits:
                of_queue = pc.equal(topics, topic).to_numpy(zero_copy_only=False) & (queues == queue_id)
                keep &= ~of_queue | ((times_ms >= limit) if is_begin else (times_ms < limit))
        return batch if keep.all() else batch.filter(pa.array(keep))


def _require_order(check: Callable[..., None], what: str, begins: _ByQueue, ends: _ByQueue) -> None:
    """Raises `UsageError` if a queue's first limit is behind its second."""
    by_queue = {(topic, queue): end for topic, queue, end in ends}
    for topic, queue, begin in begins:
        name = f"{topic.decode('utf-8', 'backslashreplace')} {queue}"
        check(**{f"the starting {what} of {name}": begin, f"the ending {what}": by_queue.get((topic, queue))})


def _parse(options: Options, name: str, no_bound: int, impossible: int) -> _ByQueue:
    """Returns the offsets of one option. `no_bound` and `impossible` are -2 and -1 or the reverse:
    a read cannot begin at the latest offset or end at the earliest."""
    words = {"earliest": EARLIEST, "latest": LATEST}
    text = options.text(name)
    if text is None or words.get(text.strip().lower()) == no_bound:
        return ()
    wrong = options.wrong(name, f"say {'earliest' if no_bound == EARLIEST else 'latest'}, or JSON such as {_EXAMPLE}")
    found = _by_queue(text, EARLIEST, wrong)
    if any(offset == impossible for _, _, offset in found):
        hint = "-1 is the latest offset, where one queue cannot begin: a stream of all begins there with latest"
        raise options.wrong(name, hint if impossible == LATEST else "-2 is the earliest offset: give another one")
    return tuple(each for each in found if each[2] != no_bound)


def _times(options: Options, name: str) -> _ByQueue:
    """Returns the times of one option, in milliseconds."""
    text = options.text(name)
    return () if text is None else _by_queue(text, 0, options.wrong(name, f"say JSON such as {_EXAMPLE_OF_TIMES}"))


def _by_queue(text: str, least: int, wrong: UsageError) -> _ByQueue:
    """Returns the numbers of a JSON text by topic and queue. Raises `wrong` for other texts, and
    for a number below `least`."""
    try:
        given = json.loads(text)
        found = [
            (to_bytes(topic), int(queue), each) for topic, queues in given.items() for queue, each in queues.items()
        ]
    except (ValueError, AttributeError, TypeError):
        raise wrong from None
    for _, _, number in found:
        if not isinstance(number, int) or isinstance(number, bool) or number < least:
            raise wrong
    return tuple(found)
