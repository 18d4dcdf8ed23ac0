"""Programs that run with at most 256 open files, as `ulimit -n 256` sets it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from tests.cli.helpers import rows_of

_PROGRAM = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
del sys.argv[0]
if sys.argv[0] == "-c":
    exec(sys.argv.pop(1))
else:
    runpy.run_module("logdex", run_name="__main__")
"""


def run_limited(*words: object, exit_code: int = 0) -> str:
    """The output of ``logdex WORDS``, or of the Python text after ``-c``, which sees the rest as
    `sys.argv`."""
    arguments = [str(word) for word in words]
    given = arguments if arguments[0] == "-c" else ["logdex", *arguments]
    done = subprocess.run([sys.executable, "-c", _PROGRAM, *given], capture_output=True, text=True)
    assert done.returncode == exit_code, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout


def run_json_limited(*words: object, exit_code: int = 0) -> list[dict[str, Any]]:
    """The JSON lines of ``logdex WORDS --json``."""
    return rows_of(run_limited(*words, "--json", exit_code=exit_code))
