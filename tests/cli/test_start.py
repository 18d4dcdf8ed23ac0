"""Commands that do little import little: the time and the memory of a small command are its
imports."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from logdex.io.mapped import kept_code
from tests.conftest import GoldenStore

_RUN = """
import contextlib, io, json, sys
from logdex.cli.commands import app
from logdex.frames.extras import hide_pandas

hide_pandas()
for line in json.loads(sys.argv[1]):
    before = set(sys.modules)
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        app(line, standalone_mode=False)
    names = set(sys.modules) - before
    new = sorted({*names, *(name.partition(".")[0] for name in names)} & set(sys.argv[2].split()))
    print(json.dumps([bool(out.getvalue()), new]))
"""
_LARGE = "numba llvmlite numpy pyarrow pandas polars duckdb pyspark rich.console zstandard pydantic fsspec"
"""Of Rich the table of wide characters alone may be there, which is small."""


COMPILED = set() if kept_code.is_keeping() else {"llvmlite"}
"""What compiles the handler of unreadable pages, where its code is not kept."""

_MAIN = """
import sys
from logdex.cli import main
try:
    main()
finally:
    import pyarrow
    pyarrow.array([b"made into Python"]).to_pylist()
    sys.stderr.write("pandas" if "pandas" in sys.modules else "no pandas")
"""
"""The program `logdex`, and afterwards what PyArrow imports pandas for, if the command has not made
an array."""


@pytest.fixture(scope="module", autouse=True)
def kept(tmp_path_factory: pytest.TempPathFactory, golden_store: GoldenStore) -> Iterator[None]:
    """What is compiled is kept, and an earlier command has compiled it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("kept")))
        assert "llvmlite" in imported_by(["info", str(golden_store("tiny-5.5.0"))])[0]
        yield


def imported_by(*lines: list[str]) -> list[list[str]]:
    """Runs commands in one new process. Returns the large packages that each imported first."""
    arguments = [json.dumps(lines), _LARGE]
    run = subprocess.run([sys.executable, "-c", _RUN, *arguments], capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert all(has_output for has_output, _ in answers)
    return [new for _, new in answers]


def test_help_imports_no_numpy() -> None:
    assert imported_by(["--help"], ["cat", "--help"]) == [[], []]


def test_small_questions_to_a_store_import_no_kernels(golden_store: GoldenStore) -> None:
    store = str(golden_store("tiny-5.5.0"))
    queries = imported_by(
        ["get", store, "--topic", "topic-🍣", "--queue", "0", "--offset", "0"],
        ["query", store, "--topic", "AaTopic", "--key", "tail"],
        ["info", f"{store}/checkpoint"],
        ["message", store, "7F00000100002A9F0000000000000000"],
    )
    assert queries == [["numpy"], [], [], []]
    for command in ["info", store], ["cat", store, "--limit", "10"]:
        assert {*imported_by(command)[0]} == {"numpy", *COMPILED}, command


def test_small_questions_to_a_log_import_no_kernels(golden_log: GoldenStore) -> None:
    logs = str(golden_log("tiny-broker"))
    get = ["get", logs, "--topic", "orders", "--partition", "0", "--offset", "3"]
    query = ["query", logs, "--topic", "audit.log", "--key", "key-168"]
    for command in ["info", logs], ["cat", logs, "--limit", "10"], get, query:
        [answer] = imported_by(command)
        assert {*answer} - {"zstandard"} == {"numpy", *COMPILED}, command


@pytest.mark.parametrize("more", [[], pytest.param(["SELECT topic FROM messages"], marks=pytest.mark.slow)])
def test_arrow_arrays_become_python_without_pandas(more: list[str], golden_store: GoldenStore) -> None:
    command = ["sql", str(golden_store("tiny-5.5.0")), *more] if more else ["--help"]
    run = subprocess.run([sys.executable, "-c", _MAIN, *command], capture_output=True, text=True, check=True)
    assert run.stdout
    assert run.stderr.endswith("no pandas")
