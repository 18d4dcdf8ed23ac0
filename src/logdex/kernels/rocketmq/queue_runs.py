"""Groups a window's messages by queue, in log order within each, and writes their ConsumeQueue
entries.

Twin: `logdex.rocketmq.consume_queue.derive.queue_runs_plain`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from logdex.kernels.common.memory import store_be32, store_be64
from logdex.kernels.compiled import kernel
from logdex.kernels.rocketmq.message_scan import Columns
from logdex.layout import rocketmq as layout

_TRANSACTION = layout.SYS_FLAG_TRANSACTION_MASK
_PREPARED = layout.SYS_FLAG_PREPARED
_ROLLBACK = layout.SYS_FLAG_ROLLBACK
_ENTRY = layout.CONSUME_QUEUE_ENTRY.size_bytes
_AT_SIZE = layout.CONSUME_QUEUE_ENTRY.offset_of("size")
_AT_TAGS = layout.CONSUME_QUEUE_ENTRY.offset_of("tags_code")


@kernel
def queue_runs(
    count: int,
    columns: Columns,
    places: npt.NDArray[np.int32],
    run_queue: npt.NDArray[np.int32],
    run_end: npt.NDArray[np.int32],
    queue_offset: npt.NDArray[np.int64],
    entries: int,
) -> int:
    """Fills `run_queue`, `run_end` (exclusive, in entries), `queue_offset` and the entries at
    address `entries`.

    `places` has one zero per queue, before and after the call. PREPARED and ROLLBACK messages get
    no entry. Returns the number of runs.
    """
    queues, sys_flag = columns.queue, columns.sys_flag
    runs = 0
    for i in range(count):
        kind = sys_flag[i] & _TRANSACTION
        if kind != _PREPARED and kind != _ROLLBACK:
            queue = queues[i]
            if places[queue] == 0:
                run_queue[runs] = queue
                runs += 1
            places[queue] += 1
    start = 0
    for run in range(runs):
        size = places[run_queue[run]]
        places[run_queue[run]] = start
        start += size
        run_end[run] = start
    position, size, tags = columns.position, columns.size, columns.tags_code
    offsets = columns.queue_offset
    for i in range(count):
        kind = sys_flag[i] & _TRANSACTION
        if kind != _PREPARED and kind != _ROLLBACK:
            place = np.int64(places[queues[i]])
            places[queues[i]] = place + 1
            queue_offset[place] = offsets[i]
            at = entries + _ENTRY * place
            store_be64(at, position[i])
            store_be32(at + _AT_SIZE, np.int64(size[i]))
            store_be64(at + _AT_TAGS, tags[i])
    for run in range(runs):
        places[run_queue[run]] = 0
    return runs
