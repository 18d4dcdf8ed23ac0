"""The options startingOffsets and endingOffsets of `rocketmq_store`: queue offsets, by topic and
queue."""

from __future__ import annotations

import json

from logdex.primitives.text import to_bytes
from logdex.rocketmq.read.read_filter import QueueRange
from logdex.spark.sources.options import Options

EARLIEST, LATEST = -2, -1
_EXAMPLE = '{"orders": {"0": 23, "1": -2}}'

_Offsets = list[tuple[bytes, int, int]]
"""(topic, queue id, queue offset)."""


def queue_ranges(options: Options) -> tuple[QueueRange, ...]:
    """Returns what the options leave of the queues that they name. Raises `UsageError` for values
    that are not valid."""
    begins = [QueueRange(*each) for each in _parse(options, "startingOffsets", EARLIEST, LATEST)]
    ends = [
        QueueRange(topic, queue, end=end) for topic, queue, end in _parse(options, "endingOffsets", LATEST, EARLIEST)
    ]
    return (*begins, *ends)


def _parse(options: Options, name: str, no_bound: int, impossible: int) -> _Offsets:
    """Returns the offsets of one option. `no_bound` and `impossible` are -2 and -1 or the reverse:
    a read cannot begin at the latest offset or end at the earliest."""
    words = {"earliest": EARLIEST, "latest": LATEST}
    text = options.text(name)
    if text is None or words.get(text.strip().lower()) == no_bound:
        return []
    wrong = options.wrong(name, f"say {'earliest' if no_bound == EARLIEST else 'latest'}, or JSON such as {_EXAMPLE}")
    try:
        given = json.loads(text)
        found = [
            (to_bytes(topic), int(queue), offset) for topic, queues in given.items() for queue, offset in queues.items()
        ]
    except (ValueError, AttributeError, TypeError):
        raise wrong from None
    for _, _, offset in found:
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < EARLIEST or offset == impossible:
            raise wrong
    return [each for each in found if each[2] != no_bound]
