"""The quickstart, as a reader would type it: every block runs, in order, and prints the lines that the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import golden

PAGE = golden.ROOT / "docs" / "guide" / "quickstart.md"
BLOCK = re.compile(r"^```(bash|python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_block(language: str, code: str, folder: Path) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = ["bash", "-euo", "pipefail", "-c", code] if language == "bash" else [sys.executable, "-c", code]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.spark
def test_every_block_runs_and_prints_what_the_page_shows(tmp_path: Path) -> None:
    golden.extract(golden.FOLDERS[0] / "demo.tar.zst", tmp_path)
    printed = ""
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    assert {language for language, _ in blocks} == {"bash", "python", "text"}
    for language, code in blocks:
        if language == "text":
            missing = [line for line in code.splitlines() if line not in printed]
            assert missing == [], printed
        else:
            printed = run_block(language, code, tmp_path)


def test_every_kind_of_block_is_known() -> None:
    fences = re.findall(r"^```(\w*)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert set(fences) == {"bash", "python", "text", ""}
    assert 2 * len(BLOCK.findall(PAGE.read_text("utf-8"))) == len(fences)


def test_a_failing_block_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="exit 7"):
        run_block("bash", "exit 7", tmp_path)
