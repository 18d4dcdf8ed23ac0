"""The guide to conversions: every block runs, in order, and prints the lines that the page
shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import SERVED, run_page, unpack_all
from tests.golden.archives import ROOT

PAGE = ROOT / "docs" / "guide" / "convert.md"


@pytest.mark.slow
@pytest.mark.parametrize("served", SERVED)
def test_every_block_runs_and_prints_what_the_page_shows(served: bool, tmp_path: Path) -> None:
    unpack_all(tmp_path)
    run_page(PAGE, tmp_path, served=served)
