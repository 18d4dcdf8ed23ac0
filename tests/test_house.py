"""The house: no circles among imports, few files per folder, and a map that equals the tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "logdex"
FILES_PER_FOLDER_MAX = 12
MORE_FILES = {
    "io": (14, "a mechanism of its own per file"),
    "cli/commands": (24, "a command per file"),
    "cli/views/kafka": (17, "a command per file"),
    "cli/views/rocketmq": (17, "a command per file"),
    "jobs": (13, "a question that all jobs have per file"),
    "kafka/read": (13, "a way of reading per file"),
    "kafka/log": (16, "the parts of one open log"),
    "kernels/kafka": (13, "a kernel per file"),
    "kernels/rocketmq": (13, "a kernel per file"),
    "primitives": (14, "an algorithm per file"),
    "rocketmq/read": (13, "a way of reading per file"),
    "rocketmq/verify": (14, "a check per file; they share the pass over the log"),
}
"""Folders with more files than `FILES_PER_FOLDER_MAX`: how many at most, and why."""


def module_of(path: Path) -> str:
    parts = path.relative_to(SRC.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports() -> dict[str, set[str]]:
    """Module → the modules of Logdex that it imports, also those that only types need."""
    files = {module_of(path): path for path in SRC.rglob("*.py")}
    found: dict[str, set[str]] = {name: set() for name in files}
    for name, path in files.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            wanted: list[str] = []
            if isinstance(node, ast.Import):
                wanted = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = [f"{node.module}.{each.name}" for each in node.names]
                wanted = [each if each in files else node.module for each in inner]
            found[name] |= {each for each in wanted if each in files and each != name}
    return found


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other: what is left after leaving out, again and again,
    what imports nothing that is left, or is imported by nothing that is left."""
    left = {name: set(targets) for name, targets in graph.items()}
    while True:
        targets = set().union(*left.values()) if left else set()
        ends = [name for name, wanted in left.items() if not wanted & left.keys() or name not in targets]
        if not ends:
            return [sorted(left)] if left else []
        for name in ends:
            del left[name]


def folders() -> Iterator[Path]:
    for path in sorted(SRC.rglob("*")):
        if path.is_dir() and any(path.glob("*.py")):
            yield path.relative_to(SRC)


def test_no_import_circles() -> None:
    # The packages of the two formats and the top import lazily, by name, so they are no part of
    # this.
    assert circles(imports()) == []


def test_circles_are_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_few_files_per_folder() -> None:
    for folder in folders():
        count = sum(path.name != "__init__.py" for path in (SRC / folder).glob("*.py"))
        bound, _ = MORE_FILES.get(folder.as_posix(), (FILES_PER_FOLDER_MAX, ""))
        assert count <= bound, f"{folder} has {count} files: split it"


def test_the_map_equals_the_tree() -> None:
    """Every folder has one row in a table of ARCHITECTURE, and every row is a folder or a file."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    rows = re.findall(r"^\| ((?:`[\w/.]+`(?:, )?)+) \|", text[: text.index("## Tests")], re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([\w/.]+)`", row) if name.endswith("/")]
    assert sorted(named) == sorted(f"{folder.as_posix()}/" for folder in folders())


def test_the_map_names_files_that_are_there() -> None:
    """A file that a folder's row names lies in that folder, or where its path says."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    rows = re.findall(r"^\| ((?:`[\w/.]+`(?:, )?)+) \| (.*) \|$", text[: text.index("## Tests")], re.MULTILINE)
    paths = {f"/{path.relative_to(SRC).as_posix()}" for path in SRC.rglob("*.py")}
    named = [(folder, name) for folder, told in rows for name in re.findall(r"`([\w/]+\.py)`", told)]
    lost = [
        (row, name)
        for row, name in named
        if not any(f"/{folder}{name}" in paths for folder in re.findall(r"`([\w/]+/)`", row))
        and not any(path.endswith(f"/{name}") if "/" in name else path == f"/{name}" for path in paths)
    ]
    assert len(named) > 100
    assert lost == []


def test_the_map_of_the_tests_equals_the_tree() -> None:
    """Every folder below tests/ that holds tests has a row in ARCHITECTURE, and the other way
    round."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8").split("\n## Tests\n")[1]
    named = re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE)
    held = {path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").glob("*/**/test_*.py")}
    assert sorted(named) == sorted(held)
