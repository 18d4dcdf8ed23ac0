"""The compiled SIGBUS handler is kept for later processes, and is used only if nobody else can have
written it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from logdex.io.mapped import kept_code
from tests.examples import cases

_RUN = """
import os, sys
from logdex.io.env import Env
from logdex.io.mapped.mapping import take_unreadable

path = sys.argv[1]
with open(path, "wb") as file:
    file.write(bytes(range(1, 251)) * 200)
data = Env().map_read(path).array
os.truncate(path, 5000)
print(int(data.sum()), take_unreadable(data), "llvmlite" in sys.modules)
"""

pytestmark = pytest.mark.skipif(not kept_code.is_keeping(), reason="code is kept on Linux on x86-64 only")


def cut_a_file(folder: Path, cache: Path) -> bool:
    """Cuts a file under its mapping in a new process. Returns whether that process compiled."""
    environ = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    run = [sys.executable, "-c", _RUN, str(folder / "file")]
    answer = subprocess.run(run, capture_output=True, text=True, check=True, env=environ).stdout
    begin = f"{20 * sum(range(1, 251))} (8192, 50000) "
    assert answer.startswith(begin)
    return answer[len(begin) :].strip() == "True"


def test_only_the_first_process_compiles(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert [cut_a_file(tmp_path, cache) for _ in range(3)] == [True, False, False]
    [kept] = (cache / "logdex").iterdir()
    assert kept.stat().st_size < 1000
    assert kept.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("harm", cases(["cut", "others may write", "changed", "a link", "of another"], 5))
def test_code_that_another_may_have_written_is_not_used(harm: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cut_a_file(tmp_path, cache)
    [kept] = (cache / "logdex").iterdir()
    code = kept.read_bytes()
    match harm:
        case "cut":
            kept.write_bytes(code[:-1])
        case "changed":
            kept.write_bytes(code[:-1] + b"\xcc")
        case "others may write":
            kept.chmod(0o620)
        case "a link":
            kept.rename(tmp_path / "real")
            kept.symlink_to(tmp_path / "real")
        case "of another":
            if os.geteuid() != 0:
                pytest.skip("only root gives files away")
            os.chown(kept, 12345, -1)
    assert cut_a_file(tmp_path, cache)
    assert kept.read_bytes() == code
    assert not cut_a_file(tmp_path, cache)


def test_without_a_folder_each_process_compiles(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no directory")
    assert [cut_a_file(tmp_path, tmp_path / "cache") for _ in range(2)] == [True, True]


def test_on_another_system_the_code_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("logdex.io.mapped.kept_code.platform.machine", lambda: "aarch64")
    source = f"define ptr @place() {{ %at = inttoptr i64 {kept_code.DATA} to ptr ret ptr %at }}"
    code = kept_code.load(source, "place", 1 << 33)
    assert _call(code) == 1 << 33
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for address in (1 << 33, 1 << 34):
        assert _call(kept_code.load(source, "place", address)) == address


def _call(code: kept_code.Code) -> int | None:
    import ctypes

    found: int | None = ctypes.CFUNCTYPE(ctypes.c_void_p)(code.address)()
    return found
