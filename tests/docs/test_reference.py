"""The reference of the Python API has all public names, each with what its docstring says."""

from __future__ import annotations

import html
import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import logdex.errors
from tests.golden.archives import ROOT

pytestmark = [pytest.mark.xdist_group("reference")]  # so that it is built once
WORD = re.compile(r"[A-Za-z]+")
HOMES = (
    "logdex",
    "logdex.rocketmq",
    "logdex.kafka",
    "logdex.kafka.rebuild",
    "logdex.rocketmq.recover",
    "logdex.errors",
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("reference")
    command = [sys.executable, "-W", "error::UserWarning:pdoc", str(ROOT / "scripts" / "reference.py"), str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return output


def public_names(home: str) -> list[str]:
    module = import_module(home)
    if home == "logdex.errors":
        return [name for name, _ in inspect.getmembers(logdex.errors, inspect.isclass)]
    return [name for name in module.__all__ if name != "__version__"]


@pytest.mark.parametrize("home", HOMES)
def test_every_public_name_is_described(home: str, pages: Path) -> None:
    page = (pages / f"{home.replace('.', '/')}.html").read_text("utf-8")
    words = " ".join(WORD.findall(html.unescape(re.sub(r"<[^>]+>", " ", page))))
    names = public_names(home)
    assert names
    for name in names:
        assert f'id="{name}"' in page, name
        text = inspect.getdoc(getattr(import_module(home), name)) or ""
        first = " ".join(WORD.findall(text)[:4])
        assert first, name
        assert first in words, name


def test_the_index_leads_to_all_pages(pages: Path) -> None:
    index = (pages / "index.html").read_text("utf-8") + (pages / "logdex.html").read_text("utf-8")
    for home in HOMES[1:3]:
        assert f"{home.replace('.', '/')}.html" in index
