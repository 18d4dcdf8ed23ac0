"""Files are truncated under every reader: none dies, none returns rows that are not in the log (law
11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.cutting import run_apart

pytestmark = pytest.mark.parametrize(
    "module", ["tests.hostile.kafka.cut_readers", "tests.hostile.rocketmq.cut_readers"]
)


def test_no_reader_dies(module: str, tmp_path: Path) -> None:
    run_apart(module, tmp_path, 1, 1, 1)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2, 6))
def test_no_reader_dies_at_length(module: str, tmp_path: Path, seed: int) -> None:
    run_apart(module, tmp_path, seed, 12, 6)
