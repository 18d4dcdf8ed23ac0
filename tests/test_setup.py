"""scripts/_setup.sh says plainly what is missing. Every interpreter here is a stub; nothing is
installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

VENV_THAT_PIP_FAILS_IN = """
echo "$*" >> calls
case "$*" in
  *"import ensurepip"*) echo ok ;;
  *"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  *"-m pip"*) echo "{said}"; exit 1 ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with nothing but what set-up reads, and a `programs` folder that is all of
    PATH."""
    (tmp_path / "scripts").mkdir()
    for name in ("pyproject.toml", "constraints.txt", "scripts/_setup.sh", "scripts/demo"):
        shutil.copy(ROOT / name, tmp_path / name)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("bash", "sh", "dirname", "cat", "tail", "mkdir", "rm", "sleep", "cp"):
        program = shutil.which(name)
        assert program is not None
        (programs / name).symlink_to(program)
    return tmp_path


def stub(checkout: Path, name: str, body: str) -> None:
    program = checkout / "programs" / name
    program.write_text("#!/bin/sh\n" + body)
    program.chmod(0o755)


def run(checkout: Path) -> str:
    """Runs scripts/demo, which must fail; what it says."""
    command = [str(checkout / "programs" / "bash"), "scripts/demo"]
    environ = {"PATH": str(checkout / "programs")}
    done = subprocess.run(command, cwd=checkout, env=environ, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert not (checkout / ".venv.lock").exists()
    return done.stderr


def test_no_python(checkout: Path) -> None:
    assert "no Python was found" in run(checkout)


def test_python_too_old(checkout: Path) -> None:
    stub(checkout, "python3", "echo '3.9 is too old'")
    said = run(checkout)
    assert "Python is too old (python3: 3.9 is too old)" in said
    assert "3.11 or newer" in said


def test_no_venv_module(checkout: Path) -> None:
    stub(checkout, "python3", "echo '3.12 lacks the venv module'")
    assert "apt install python3-venv" in run(checkout)


@pytest.mark.parametrize(
    ("pip_said", "expected"),
    [
        ("ERROR: Could not find a version that satisfies the requirement isal (from versions: none)", "package index"),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("ERROR: something else", "setup.log"),
    ],
)
def test_pip_fails(checkout: Path, pip_said: str, expected: str) -> None:
    stub(checkout, "python3", VENV_THAT_PIP_FAILS_IN.format(said=pip_said))
    said = run(checkout)
    assert pip_said in said
    assert expected in said
    assert not (checkout / ".venv" / "setup.stamp").exists()


def test_a_second_run_starts_at_once_until_the_requirements_change(checkout: Path) -> None:
    stub(checkout, "python3", VENV_THAT_PIP_FAILS_IN.format(said="broken").replace("exit 1", "exit 0"))
    command = [str(checkout / "programs" / "bash"), "scripts/demo"]
    environ = {"PATH": str(checkout / "programs")}

    def said() -> str:
        return subprocess.run(command, cwd=checkout, env=environ, capture_output=True, text=True, check=True).stderr

    assert "installing packages" in said()
    assert "-m logdex warm-up" in (checkout / "calls").read_text().splitlines()
    assert said() == ""
    with (checkout / "constraints.txt").open("a") as file:
        file.write("# changed\n")
    assert "installing packages" in said()
