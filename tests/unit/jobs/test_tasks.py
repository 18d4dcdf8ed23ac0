"""How parts become tasks."""

from __future__ import annotations

from typing import NamedTuple

from logdex.jobs.tasks import group_parts


class Part(NamedTuple):
    size_bytes: int


def test_tasks_take_parts_up_to_their_size() -> None:
    parts = [Part(size) for size in [5, 5, 3, 20, 1, 0, 9]]
    for size, expected in ((10, [[5, 5], [3], [20], [1, 0, 9]]), (1, [[5], [5], [3], [20], [1, 0], [9]])):
        assert [[part.size_bytes for part in task] for task in group_parts(parts, size)] == expected
    no_parts: list[Part] = []
    assert group_parts(no_parts, 10) == []
