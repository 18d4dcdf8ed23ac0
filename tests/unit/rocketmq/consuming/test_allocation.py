from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logdex.rocketmq.consuming.allocation import allocate_averagely


def as_the_engine(queues: list[int], members: list[str], member: str) -> list[int]:
    """AllocateMessageQueueAveragely, its formulas one by one."""
    index = members.index(member)
    mod = len(queues) % len(members)
    if len(queues) <= len(members):
        each = 1
    else:
        each = len(queues) // len(members) + (1 if mod > 0 and index < mod else 0)
    start = index * each if mod > 0 and index < mod else index * each + mod
    return queues[start : start + max(min(each, len(queues) - start), 0)]


@given(st.integers(0, 20), st.integers(1, 24))
def test_every_queue_has_one_member(count: int, number: int) -> None:
    queues, members = list(range(count)), [f"m{place:02}" for place in range(number)]
    shares = [allocate_averagely(queues, members, member) for member in members]
    assert [queue for share in shares for queue in share] == queues
    assert shares == [as_the_engine(queues, members, member) for member in members]


def test_who_is_no_member_has_none() -> None:
    assert allocate_averagely([0, 1], ["a"], "b") == []
    assert allocate_averagely([], ["a"], "a") == []
