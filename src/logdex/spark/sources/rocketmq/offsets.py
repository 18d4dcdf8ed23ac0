"""The options startingOffsets and endingOffsets of `rocketmq_store`: queue offsets, by topic and
queue."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdex.spark.sources.options import Options

NEEDED_COLUMNS = ("topic", "queue_id", "queue_offset")
EARLIEST, LATEST = -2, -1
_EXAMPLE = '{"orders": {"0": 23, "1": -2}}'

Offsets = tuple[tuple[str, int, int], ...]
"""(topic, queue id, queue offset)."""


@dataclass(frozen=True, slots=True)
class QueueRanges:
    """The queue offsets to read, from `begins` on and before `ends`, of the queues that are named;
    everything of all others."""

    begins: Offsets = ()
    ends: Offsets = ()

    @staticmethod
    def of(options: Options) -> QueueRanges:
        """Reads the options. Raises `UsageError` for values that are not valid."""
        begins = _parse(options, "startingOffsets", EARLIEST, LATEST)
        return QueueRanges(begins, _parse(options, "endingOffsets", LATEST, EARLIEST))

    def __bool__(self) -> bool:
        return bool(self.begins or self.ends)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows of a batch that are in the ranges."""
        keep = np.ones(len(batch), np.bool_)
        topics = batch.column("topic").cast(pa.string())
        queues, offsets = (batch.column(name).to_numpy() for name in ("queue_id", "queue_offset"))
        for limits, is_begin in ((self.begins, True), (self.ends, False)):
            for topic, queue_id, offset in limits:
                of_queue = pc.equal(topics, topic).to_numpy(zero_copy_only=False) & (queues == queue_id)
                keep &= ~of_queue | ((offsets >= offset) if is_begin else (offsets < offset))
        return batch if keep.all() else batch.filter(pa.array(keep))


def _parse(options: Options, name: str, no_bound: int, impossible: int) -> Offsets:
    """Returns the offsets of one option. `no_bound` and `impossible` are -2 and -1 or the reverse:
    a read cannot begin at the latest offset or end at the earliest."""
    words = {"earliest": EARLIEST, "latest": LATEST}
    text = options.text(name)
    if text is None or words.get(text.strip().lower()) == no_bound:
        return ()
    wrong = options.wrong(name, f"say {'earliest' if no_bound == EARLIEST else 'latest'}, or JSON such as {_EXAMPLE}")
    try:
        given = json.loads(text)
        found = [
            (str(topic), int(queue), offset) for topic, queues in given.items() for queue, offset in queues.items()
        ]
    except (ValueError, AttributeError, TypeError):
        raise wrong from None
    for _, _, offset in found:
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < EARLIEST or offset == impossible:
            raise wrong
    return tuple(each for each in found if each[2] != no_bound)
