"""Which queues a member of a group consumes: the average strategy.

Source: AllocateMessageQueueAveragely.
"""

from __future__ import annotations

from collections.abc import Sequence


def allocate_averagely(queues: Sequence[int], members: Sequence[str], member: str) -> list[int]:
    """The queues of one member. All members must give equal sequences: each gets a row of adjacent
    queues, and the first ones one more if the queues cannot be shared evenly."""
    if not queues or member not in members:
        return []
    index = list(members).index(member)
    each, more = divmod(len(queues), len(members))
    start = index * each + min(index, more)
    return list(queues[start : start + each + (index < more)])
