"""`logdex completion`, and what shells get when they ask for words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from logdex.cli.completing import COMPLETE_VARIABLE
from tests.cli.helpers import run


def answers(shell: str, line: str, folder: Path) -> list[str]:
    """The words that the command answers a shell which asks what may stand at the end of a line."""
    words = line.split(" ")
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)} if shell == "bash" else {}
    environ = {**os.environ, **asked, COMPLETE_VARIABLE: f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line}
    environ |= {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run(
        [sys.executable, "-m", "logdex"], env=environ, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return [word.split("\t")[0] for word in done.stdout.split("\n") if word]


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_commands_options_and_values(shell: str, tmp_path: Path) -> None:
    assert answers(shell, "logdex ver", tmp_path) == ["verify"]
    assert answers(shell, "logdex verify --eng", tmp_path) == ["--engine"]
    assert answers(shell, "logdex verify --engine ", tmp_path) == ["local", "spark"]


def test_paths(tmp_path: Path) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    (tmp_path / "stored.log").touch()
    assert answers("fish", "logdex info sto", tmp_path) == ["store/", "stored.log"]
    assert answers("fish", "logdex info store/", tmp_path) == ["store/commitlog/"]
    assert answers("fish", "logdex info nowhere/", tmp_path) == []
    assert answers("bash", "logdex info sto", tmp_path) == []  # it completes paths by itself then


def test_nobody_asks(tmp_path: Path) -> None:
    assert "--install-completion" not in run("--help").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_the_script_is_printed(shell: str) -> None:
    done = run("completion", shell)
    assert done.exit_code == 0
    assert f"{COMPLETE_VARIABLE}" in done.stdout
    assert "logdex" in done.stdout
    assert "\\x0a" not in done.stdout
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=True)


def test_installed_for_bash(tmp_path: Path) -> None:
    home = {**os.environ, "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "logdex", "completion", "bash", "--install"]
    for _ in range(2):
        done = subprocess.run(command, env=home, capture_output=True, text=True, check=True)
        assert str(tmp_path / ".bash_completions" / "logdex.sh") in done.stderr
    assert (tmp_path / ".bashrc").read_text().count("logdex.sh") == 1
    loaded = subprocess.run(
        ["bash", "-c", f"source {tmp_path}/.bashrc; complete -p logdex"], capture_output=True, text=True, check=True
    )
    assert "complete -o default" in loaded.stdout


def test_a_shell_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    import shellingham

    monkeypatch.setattr(shellingham, "detect_shell", lambda: ("tcsh", "/bin/tcsh"))
    refused = run("completion")
    assert refused.exit_code == 2
    assert "bash, zsh, fish" in refused.stderr
    monkeypatch.setattr(shellingham, "detect_shell", lambda: ("zsh", "/bin/zsh"))
    assert "compdef" in run("completion").stdout
