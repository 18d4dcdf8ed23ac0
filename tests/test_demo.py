"""scripts/demo.py: shows what it promises, leaves nothing behind, and fails where something
differs."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from types import ModuleType

import pytest

from tests.cli.helpers import run
from tests.docs.served import run_python
from tests.golden.archives import ROOT, extract

SCRIPT = ROOT / "scripts" / "demo.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


demo = load()


def derived(root: Path, files: dict[str, bytes]) -> Path:
    for name in ("consumequeue", "index"):
        (root / name).mkdir(parents=True)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


QUEUE = "consumequeue/t/0/00000000000000000000"
THEIRS = {QUEUE: b"queue", "index/20260101000000000": b"first", "index/20260101000000001": b"second"}


def check_told(text: str) -> None:
    assert "-> 11 of 11 files identical" in text
    commands = re.findall(r"^\$ logdex (\w+) ", text, re.MULTILINE)
    kafka = ["info", "get", "rebuild", "recover", "verify"]
    assert commands == ["info", "rebuild", "query", "message", "get", *kafka]
    assert "engine spark" in text
    assert "-> 48 of 48 files identical" in text
    assert "as a stream: 4000 rows, 4000 numbers" in text


@pytest.mark.slow  # whoever clones the project runs scripts/demo itself
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its commands are run by this process, where Spark runs."""

    def run_here(folder: Path, *arguments: str, exit_code: int = 0) -> str:
        with chdir(folder):
            ended = run(*arguments)
        assert ended.exit_code == exit_code, ended
        return ended.stdout

    monkeypatch.setattr(demo, "run_quietly", run_here)
    monkeypatch.setattr(demo, "run_python", lambda program, folder: run_python(program.read_text("utf-8"), folder))
    monkeypatch.setattr(demo.tempfile, "tempdir", str(tmp_path))
    assert demo.main([]) == 0
    check_told(capsys.readouterr().out)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.spark
def test_the_demo_in_processes_of_its_own(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={**os.environ, "TMPDIR": str(temporary)},
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    check_told(done.stdout)
    assert list(temporary.iterdir()) == []
    assert list(tmp_path.iterdir()) == [temporary]


def test_equal_stores_are_identical_whatever_their_index_files_are_called(tmp_path: Path) -> None:
    ours = {QUEUE: b"queue", "index/1": b"first", "index/2": b"second"}
    assert demo.compare(derived(tmp_path / "a", THEIRS), derived(tmp_path / "b", ours)) == (3, [])


@pytest.mark.parametrize(
    ("change", "differing"),
    [
        ({QUEUE: b"queuE"}, [QUEUE]),
        ({QUEUE: None}, [QUEUE]),
        ({"consumequeue/t/1/00000000000000000000": b""}, ["consumequeue/t/1/00000000000000000000"]),
        ({"index/20260101000000001": b"secund"}, ["index, file 2"]),
        ({"index/20260101000000001": None}, ["index, file 2"]),
        ({"index/20260101000000002": b"third"}, ["index, file 3"]),
    ],
)
def test_differences_are_seen(tmp_path: Path, change: dict[str, bytes | None], differing: list[str]) -> None:
    ours = {name: content for name, content in {**THEIRS, **change}.items() if content is not None}
    theirs, rebuilt = derived(tmp_path / "a", THEIRS), derived(tmp_path / "b", ours)
    assert demo.compare(theirs, rebuilt)[1] == differing
    with pytest.raises(demo.DemoFailed, match="not the broker's"):
        demo.show_comparison(theirs, rebuilt)


def test_nothing_to_compare_is_no_success(tmp_path: Path) -> None:
    with pytest.raises(demo.DemoFailed):
        demo.show_comparison(derived(tmp_path / "a", {}), derived(tmp_path / "b", {}))


RECOVERED = [
    {"kind": "file", "partition": "orders-0", "name": "1.index", "sha256": hashlib.sha256(b"entries").hexdigest()},
    {"kind": "file", "partition": "orders-0", "name": "1.log", "sha256": ""},
    {"kind": "segment", "partition": "orders-0"},
]


def rebuilt_log(root: Path, files: dict[str, bytes]) -> Path:
    (root / "orders-0").mkdir(parents=True)
    for name, content in files.items():
        (root / "orders-0" / name).write_bytes(content)
    return root


def test_rebuilt_indexes_are_compared_with_kafkas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo.show_recovery_comparison(rebuilt_log(tmp_path, {"1.index": b"entries"}), {"recovered": RECOVERED})
    assert capsys.readouterr().out == "-> 1 of 1 files identical\n"


@pytest.mark.parametrize(
    "files", [{}, {"1.index": b"entrees"}, {"1.index": b"entries", "2.index": b""}, {"2.index": b"entries"}]
)
def test_differing_indexes_are_seen(tmp_path: Path, files: dict[str, bytes]) -> None:
    with pytest.raises(demo.DemoFailed, match="not those of Kafka's recovery"):
        demo.show_recovery_comparison(rebuilt_log(tmp_path, files), {"recovered": RECOVERED})


def test_no_indexes_to_compare_are_no_success(tmp_path: Path) -> None:
    with pytest.raises(demo.DemoFailed):
        demo.show_recovery_comparison(rebuilt_log(tmp_path, {}), {"recovered": []})


def test_wrong_answers_are_seen() -> None:
    with pytest.raises(demo.DemoFailed, match="not so: the same message"):
        demo.expect("the same message", False)


def test_a_program_that_fails_ends_it(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("print('here')\n")
    assert demo.run_python(program, tmp_path) == "here\n"
    program.write_text("raise SystemExit(3)\n")
    with pytest.raises(demo.DemoFailed, match=r"program\.py ended with exit code 3"):
        demo.run_python(program, tmp_path)


def test_a_command_that_fails_ends_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(demo.DemoFailed, match="logdex info ended with exit code 2"):
        demo.logdex(tmp_path, "info", "nowhere")
    assert "$ logdex info nowhere" in capsys.readouterr().out


@pytest.mark.parametrize(("failure", "code"), [(demo.DemoFailed("harm"), 1), (OSError("disk full"), 2)])
def test_failures_have_exit_codes_and_leave_nothing(
    failure: Exception, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(folder: Path) -> None:
        (folder / "store").mkdir()
        raise failure

    monkeypatch.setattr(demo, "run", run)
    monkeypatch.setattr(demo.tempfile, "tempdir", str(tmp_path))
    assert demo.main([]) == code
    assert f"demo: {failure}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_keep_keeps_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "run", lambda folder: (folder / "store").mkdir())
    monkeypatch.setattr(demo.tempfile, "tempdir", str(tmp_path))
    assert demo.main(["--keep"]) == 0
    (folder,) = tmp_path.iterdir()
    assert (folder / "store").is_dir()
    assert str(folder) in capsys.readouterr().out


@pytest.mark.parametrize("unpack", [demo.unpack, extract], ids=["demo", "tests"])
def test_archives_are_unpacked_where_python_has_no_filters_for_them(
    unpack: Callable[[Path, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Python 3.11.0 to 3.11.3, which Debian 12 has."""
    today = tarfile.TarFile.extractall

    def extractall(archive: tarfile.TarFile, path: Path, members: None = None, *, numeric_owner: bool = False) -> None:
        today(archive, path, members, numeric_owner=numeric_owner)

    monkeypatch.setattr(tarfile.TarFile, "extractall", extractall)
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    unpack(demo.KAFKA / "tiny-broker.tar.zst", tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*.log"))
