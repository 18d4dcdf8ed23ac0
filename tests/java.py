"""How the Java programs of tests are started: each lives for one test."""

from __future__ import annotations

from pathlib import Path

QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
"""No optimising compiler, for these programs end before it would pay, and no verification of
classes that come in released jars: half the seconds of a start."""


def path_without_java(tmp_path: Path) -> str:
    """A PATH with the programs that Spark's start scripts call, and no Java."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in (
        "bash",
        "cat",
        "dirname",
        "env",
        "expr",
        "grep",
        "id",
        "mkdir",
        "ps",
        "rm",
        "sed",
        "sh",
        "tr",
        "uname",
    ):
        for directory in ("/bin", "/usr/bin"):
            program = Path(directory, name)
            if program.exists() and not (folder / name).exists():
                (folder / name).symlink_to(program)
    return str(folder)
