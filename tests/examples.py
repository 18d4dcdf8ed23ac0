"""How many examples a property tries: half of them in the default run, all in `scripts/test --all`."""

from __future__ import annotations

import os

ALL_EXAMPLES = "LOGDEX_TEST_ALL"
"""The environment variable that `scripts/test --all` sets."""


def examples(most: int) -> int:
    """For `settings(max_examples=examples(most))`."""
    return most if os.environ.get(ALL_EXAMPLES) else -(-most // 2)
