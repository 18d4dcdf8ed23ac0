"""What the tests of harmed files ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.harm import peak_bytes

MEMORY_GROWTH_MAX = 300 << 20


@pytest.fixture
def bounded_memory() -> Iterator[None]:
    """Fails where the test has this process grow much."""
    growth_from = peak_bytes()
    yield
    assert peak_bytes() - growth_from < MEMORY_GROWTH_MAX
