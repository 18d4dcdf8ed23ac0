"""Running the command line in this process, and hashing what it must not touch."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from logdex.cli import app


def run(*arguments: object) -> Result:
    """`logdex ARGUMENTS` in this process; fails the test where an exception would have been a traceback."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def run_json(*arguments: object, exit_code: int = 0) -> list[dict[str, Any]]:
    """The JSON lines of `logdex ARGUMENTS --json`."""
    result = run(*arguments, "--json")
    assert result.exit_code == exit_code, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def tree_hash(root: Path) -> str:
    """A digest over names, bytes and modification times of everything below `root`."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        digest.update(f"{path.relative_to(root)}\0{status.st_mode}\0{status.st_mtime_ns}\0".encode())
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()
