"""Running the blocks of a page as a reader would type them, in a folder with what its examples
use."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.docs.served import run_bash, run_python
from tests.golden import kafka as golden_kafka
from tests.golden import rocketmq as golden
from tests.golden.archives import ROOT

BLOCK = re.compile(r"^```(bash|python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVED = [True, pytest.param(False, marks=pytest.mark.slow)]
"""How the blocks of a page are run: by this process and, in `scripts/test --all`, by one process
each as well."""

KAFKA = {"logs": "tiny-broker", "crashed": "tiny-crash"}
"""Which directories of tests/conformance/kafka the pages' examples are about, by the names that
they have there."""


def unpack_kafka(folder: Path) -> None:
    """The Kafka directories of the examples."""
    for name, case in KAFKA.items():
        golden_kafka.unpack(case, folder / name)


def unpack_all(folder: Path) -> None:
    """What `scripts/demo --keep` leaves for trying things: a store, and the Kafka directories."""
    golden.unpack_demo(folder)
    unpack_kafka(folder)


def blocks_of_pages() -> Iterator[tuple[str, str]]:
    """The blocks of Python on the pages, each with a name for a module."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))):
        blocks = [code for language, code in BLOCK.findall(page.read_text("utf-8")) if language == "python"]
        for number, code in enumerate(blocks):
            yield f"{page.stem.lower().replace('-', '_')}_{number}.py", code


def run_block(language: str, code: str, folder: Path, *, served: bool = False) -> str:
    """What a block prints, run by a process of its own or `served` by this one; fails where its
    exit code is not 0."""
    if served and language == "python":
        return run_python(code, folder)
    if served:
        with TemporaryDirectory() as calls:
            done = run_bash(code, folder, Path(calls))
    else:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        command = ["bash", "-euo", "pipefail", "-c", code] if language == "bash" else [sys.executable, "-c", code]
        environ = {**os.environ, "PATH": path}
        done = subprocess.run(
            command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_page(page: Path, folder: Path, *, served: bool = False) -> None:
    """Every block, in order; each line of a text block must come out of the block before it.

    The first one is always a process of its own, and where they are not `served`, all are."""
    printed, serve = "", False
    for language, code in BLOCK.findall(page.read_text("utf-8")):
        if language == "text":
            missing = [line for line in code.splitlines() if line not in printed]
            assert not missing, f"{missing} not in what was printed:\n{printed}"
        else:
            printed = run_block(language, code, folder, served=serve)
            serve = served


if __name__ == "__main__":  # scripts/test has mypy check the blocks with the sources
    for name, code in blocks_of_pages():
        (Path(sys.argv[1]) / name).write_text(code, "utf-8")
