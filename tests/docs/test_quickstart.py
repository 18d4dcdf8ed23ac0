"""The quickstart, as a reader would type it: every block runs, in order, and prints the lines that the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import BLOCK, run_block, run_page, unpack_all
from tests.golden.archives import ROOT

PAGE = ROOT / "docs" / "guide" / "quickstart.md"


@pytest.mark.spark
def test_every_block_runs_and_prints_what_the_page_shows(tmp_path: Path) -> None:
    unpack_all(tmp_path)
    run_page(PAGE, tmp_path)


def test_every_kind_of_block_is_known() -> None:
    fences = re.findall(r"^```(\w*)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert set(fences) == {"bash", "python", "text", ""}
    assert 2 * len(BLOCK.findall(PAGE.read_text("utf-8"))) == len(fences)


def test_a_failing_block_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="exit 7"):
        run_block("bash", "exit 7", tmp_path)


def test_a_line_that_is_not_printed_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```bash\necho one\n```\n\n```text\none\ntwo\n```\n")
    with pytest.raises(AssertionError, match="two"):
        run_page(page, tmp_path)
