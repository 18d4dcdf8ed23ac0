"""How the tests are divided among the processes of pytest-xdist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from xdist.scheduler import LoadGroupScheduling

GROUPS = ("spark", "conformance", "frames")
"""Each is run by one process, in this order: Spark starts once, the golden stores are unpacked and
their manifests parsed once, DuckDB and Polars are imported once."""

LAST = ("property", "unit")
"""The folders whose files take the shortest."""


class FileScheduling(LoadGroupScheduling):
    """Gives a process the tests of a group (`xdist_group`) or else of a file at once.

    Tests that are given one by one wait for the process that gives them out, whose work per test
    grows with the number of tests, and a file's fixtures are made in each process.
    """

    def _split_scope(self, nodeid: str) -> str:
        scope = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if scope == nodeid else scope


def divide(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, str]]:
    """Yields the tests that belong to a group, and its name. A slow test is a group by itself."""
    for number, item in enumerate(items):
        if item.get_closest_marker("spark"):
            yield item, "spark"
        elif "conformance" in item.path.parts:
            yield item, "conformance"
        elif "frames" in item.path.parts or "sql" in item.path.parts:
            yield item, "frames"
        elif item.get_closest_marker("slow") and not item.get_closest_marker("xdist_group"):
            yield item, f"slow-{number}"


def turn(item: pytest.Item) -> int:
    """Sorts what takes long to the front, so that no process is left with it at the end."""
    group = item.get_closest_marker("xdist_group")
    if group and group.args[0] in GROUPS:
        return GROUPS.index(group.args[0])
    return len(GROUPS) + any(folder in item.path.parts for folder in LAST)
