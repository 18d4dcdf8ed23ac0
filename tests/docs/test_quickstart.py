"""The quickstart and the guide to exports, as a reader would type them: every block runs, in order,
and prints the lines that the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import logdex
from tests.docs.pages import BLOCK, SERVED, run_block, run_page, unpack_all
from tests.examples import cases
from tests.golden.archives import ROOT

PAGE = ROOT / "docs" / "guide" / "quickstart.md"


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("served", SERVED)
@pytest.mark.parametrize("page", cases([PAGE, PAGE.with_name("lake.md")], 2), ids=lambda page: page.name)
def test_every_block_runs_and_prints_what_the_page_shows(page: Path, served: bool, tmp_path: Path) -> None:
    unpack_all(tmp_path)
    run_page(page, tmp_path, served=served)


def test_every_kind_of_block_is_known() -> None:
    fences = re.findall(r"^```(\w*)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert set(fences) == {"bash", "python", "text", ""}
    assert 2 * len(BLOCK.findall(PAGE.read_text("utf-8"))) == len(fences)


@pytest.mark.parametrize("served", [False, True])
def test_a_failing_block_fails(served: bool, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="exit 7"):
        run_block("bash", "exit 7", tmp_path, served=served)
    with pytest.raises((AssertionError, ZeroDivisionError), match="by zero"):
        run_block("python", "1 / 0", tmp_path, served=served)


@pytest.mark.parametrize("served", [False, True])
def test_a_line_that_is_not_printed_fails(served: bool, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```bash\necho two\n```\n```bash\necho one\n```\n\n```text\none\ntwo\n```\n")
    with pytest.raises(AssertionError, match="two"):
        run_page(page, tmp_path, served=served)


def test_what_a_served_command_prints_and_its_exit_code_are_the_commands(tmp_path: Path) -> None:
    (tmp_path / "in here").mkdir()
    block = """
        cd 'in here'
        logdex info 'no where' 2> ../errors || echo "ended with $?"
        logdex --version | cat
        logdex info 2>&1 || echo "and with $?"
    """
    printed = run_block("bash", block, tmp_path, served=True)
    assert printed.startswith(f"ended with 2\nlogdex {logdex.__version__}\n")
    assert printed.endswith("and with 2\n")
    assert "Missing argument" in printed
    assert (tmp_path / "errors").read_text().startswith("logdex: no where: ")
    assert run_block("bash", block, tmp_path) == printed
