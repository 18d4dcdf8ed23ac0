"""Which part of a test's examples the default run takes: a third or half of them. `scripts/test --all` takes all, but
for a few tests that would take hours: of their seeds it takes some, and with LOGDEX_TEST_SEEDS=all every one."""

from __future__ import annotations

import os

import pytest

ALL_EXAMPLES = "LOGDEX_TEST_ALL"
"""The environment variable that `scripts/test --all` sets."""


HALVES = pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.slow)])
"""For tests that try a list of harms, `[half::2]` of it: the default run a half, `scripts/test --all` all."""


def examples(most: int) -> int:
    """How many examples a property tries, for `settings(max_examples=examples(most))`."""
    return most if os.environ.get(ALL_EXAMPLES) else -(-most // 3)


ALL_SEEDS = "LOGDEX_TEST_SEEDS"
"""The environment variable that, set to `all`, makes the longest of the slow tests try every seed, for hours."""


def every(step: int, seeds: range) -> range:
    """Which of its seeds, or sizes of a cut file, a long test tries: every `step`-th, or all of them if
    LOGDEX_TEST_SEEDS is `all`."""
    return seeds if os.environ.get(ALL_SEEDS) == "all" else seeds[::step]
