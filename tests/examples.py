"""Which part of a test's examples the default run takes. `scripts/test --all` takes all, but for a
few tests that would take hours: of their seeds it takes some, and with LOGDEX_TEST_SEEDS=all every
one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pytest

ALL_EXAMPLES = "LOGDEX_TEST_ALL"
"""The environment variable that `scripts/test --all` sets."""

ALL_SEEDS = "LOGDEX_TEST_SEEDS"
"""The environment variable that, set to `all`, makes the longest of the slow tests try every seed,
for hours."""

SOME_MOST = 8
"""About how many examples `some` returns at most in the default run."""

T = TypeVar("T")


def takes_all() -> bool:
    """Whether this run takes all examples."""
    return bool(os.environ.get(ALL_EXAMPLES))


def examples(most: int) -> int:
    """How many examples a property tries, for `settings(max_examples=examples(most))`: a tenth in
    the default run."""
    return most if takes_all() else -(-most // 10)


def some(items: Sequence[T], one_of: int, *, first: int = 0) -> Sequence[T]:
    """Returns all of a test's examples, such as places to harm; in the default run one of `one_of`,
    from `first` on, and no more than about `SOME_MOST`."""
    step = max(one_of, len(items) // SOME_MOST)
    return items if takes_all() else items[first % step :: step]


def cases(items: Iterable[T], one_of: int, *, first: int = 0) -> list[Any]:
    """Returns the cases of `pytest.mark.parametrize`: the default run takes one of `one_of`, the
    others are slow."""
    return [
        item
        if place % one_of == first
        else pytest.param(*(item if isinstance(item, tuple) else (item,)), marks=pytest.mark.slow)
        for place, item in enumerate(items)
    ]


def every(step: int, seeds: range, *, first: int = 0) -> range:
    """Which of its seeds, or sizes of a cut file, a long test tries: every `step`-th from `first`
    on, or all of them if LOGDEX_TEST_SEEDS is `all`."""
    return seeds if os.environ.get(ALL_SEEDS) == "all" else seeds[first::step]
