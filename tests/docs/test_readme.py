"""README.md and the guides on rebuilding as a reader would type them, and the links of all
documents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from logdex.cli.commands import app
from tests.docs.pages import BLOCK, SERVED, run_page, unpack_all, unpack_kafka
from tests.examples import cases
from tests.golden import kafka as golden_kafka
from tests.golden import rocketmq as golden
from tests.golden.archives import ROOT, SHARED
from tests.golden.rocketmq import unpack_demo

README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "guide"
TOURS = [README, *(GUIDE / f"{page}.md" for page in ("for-data-engineers", "rebuild", "kafka-rebuild"))]
WITHOUT_SPARK = [GUIDE / f"{page}.md" for page in ("kafka-log", "kafka-operator", "message-store", "recover")]
ASK = GUIDE / "ask-a-log.md"
READABLE = GUIDE / "readable-output.md"
OPERATORS = [GUIDE / f"{page}.md" for page in ("for-operators", "for-programs", "rocketmq-operator", "settings")]
FRONT = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")]
DOCUMENTS = [*FRONT, *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def links(page: Path) -> list[str]:
    return [target for target in LINK.findall(page.read_text("utf-8")) if "://" not in target]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("served", SERVED)
@pytest.mark.parametrize("page", cases(TOURS, len(TOURS)), ids=lambda page: page.name)
def test_every_block_runs_and_prints_what_the_page_shows(page: Path, served: bool, tmp_path: Path) -> None:
    unpack_all(tmp_path)
    run_page(page, tmp_path, served=served)


@pytest.mark.parametrize("served", SERVED)
@pytest.mark.parametrize("page", cases(WITHOUT_SPARK, 4, first=2), ids=lambda page: page.name)
def test_every_block_of_a_page_without_spark_runs(page: Path, served: bool, tmp_path: Path) -> None:
    (unpack_demo if page.name == "recover.md" else unpack_kafka)(tmp_path)
    run_page(page, tmp_path, served=served)


@pytest.mark.parametrize("served", SERVED)
@pytest.mark.parametrize("page", [ASK, READABLE, *cases(OPERATORS, 2)], ids=lambda page: page.name)
def test_every_block_of_a_page_about_both_formats_runs(page: Path, served: bool, tmp_path: Path) -> None:
    unpack_all(tmp_path)
    run_page(page, tmp_path, served=served)


@pytest.mark.parametrize("page", [*TOURS, *WITHOUT_SPARK, ASK, READABLE, *OPERATORS], ids=lambda page: page.name)
def test_no_block_escapes(page: Path) -> None:
    fences = re.findall(r"^```(\w+)$", page.read_text("utf-8"), re.MULTILINE)
    assert len(BLOCK.findall(page.read_text("utf-8"))) == len(fences) - fences.count("sh")
    assert set(fences) <= {"bash", "python", "text", "sh"}


def test_the_tours_of_readme_are_short() -> None:
    tour = README.read_text("utf-8").partition("## A tour")[2].partition("\n## ")[0]
    for part in tour.split("\n### ")[1:]:
        code = "".join(re.findall(r"^```(?:bash|python)\n(.*?)^```$", part, re.MULTILINE | re.DOTALL))
        assert 0 < len(code.splitlines()) <= 20, part.splitlines()[0]


def test_the_commands_on_top_are_there() -> None:
    (block,) = re.findall(r"^```sh\n(.*?)^```$", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    for line in block.splitlines():
        script = ROOT / line.split()[0]
        assert script.stat().st_mode & 0o111, f"{script} cannot be run"


def test_the_versions_that_readme_names_are_those_that_are_tested() -> None:
    """Those of the repository's own stores, whatever others are tried too."""
    text = README.read_text("utf-8")
    for pattern, key, stores in (
        (r"tested with ([^)]*)\)", "rocketmq", golden),
        (r"\(directories of ([^)]*) are tested\)", "kafka", golden_kafka),
    ):
        told = re.search(pattern, text)
        assert told is not None
        named = set(re.findall(r"\d+\.\d+\.\d+", told[1]))
        assert {stores.manifest(name)[key] for name in stores.NAMES if is_own(stores.CASES[name])} <= named
    if SHARED.is_dir():
        assert named <= {golden_kafka.manifest(name)["kafka"] for name in golden_kafka.NAMES}


def is_own(path: Path) -> bool:
    return ROOT in path.parents


def test_the_commands_that_readme_lists_are_those_that_there_are() -> None:
    listed = re.findall(r"^\| `([\w-]+)` \| ", README.read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(
        command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands
    )


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert [target for target in links(page) if not (page.parent / target).exists()] == []


def test_every_document_can_be_reached_from_the_readme() -> None:
    reached, waiting = {README}, [README]
    while waiting:
        page = waiting.pop()
        found = {(page.parent / target).resolve() for target in links(page) if target.endswith(".md")} - reached
        reached |= found
        waiting += found
    assert [str(page.relative_to(ROOT)) for page in DOCUMENTS if page not in reached] == []


def test_every_layer_is_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    inside = (ROOT / "src" / "logdex").iterdir()
    names = {path.name + "/" if path.is_dir() else path.name for path in inside}
    names -= {"__pycache__/", "py.typed", "__init__.py", "__main__.py"}
    names |= {f"{path.name}/" for path in (ROOT / "tests").iterdir() if any(path.rglob("test_*.py"))}
    assert sorted(name for name in names if name not in text) == []
