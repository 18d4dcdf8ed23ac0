"""The lives of a queue: a topic that was deleted and created again counts its queue offsets from 0
anew, while the messages of its earlier life are still in the CommitLog.

Source: ``docs/formats/consume-queue.md``; DefaultMessageStore.deleteTopics.
"""

from __future__ import annotations

WHY_EARLIER = "of earlier lives of topics that were created again, or their topic or queue has changed"
"""Why messages before the newest life of a queue are in no queue. One damaged message looks like an
earlier life."""


def begins_anew(next_offset: int, first: int, second: int | None) -> bool:
    """Whether an entry with the queue offset `first` begins a new life of a queue whose next offset
    would be `next_offset`.

    `second` is the offset of the queue's entry after it, None if there is none. It tells a new life
    from one message whose queue offset has changed to 0, after which the offsets go on as before.
    """
    if first != 0 or next_offset <= 0:
        return False
    return second is None or second == 1 or 0 <= second < next_offset
