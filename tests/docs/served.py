"""Blocks of a page run in this process, where kernels are loaded and Spark runs already.

A process per command takes most of a second to start, and a Spark session several. So bash finds a
`logdex` on its PATH that only passes its arguments on: this process runs the command and hands back
what it printed and its exit code.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, redirect_stdout
from pathlib import Path

from tests.cli.helpers import run

STAND_IN = """\
#!/bin/sh
call=$(mktemp -d "$LOGDEX_CALLS/call.XXXXXX") && mkfifo "$call/code"
printf '%s\\0' "$PWD" "$@" > "$call/arguments"
echo "$call" > "$LOGDEX_CALLS/waiting"
read -r code < "$call/code"
cat "$call/stdout"
cat "$call/stderr" >&2
exit "$code"
"""


def run_bash(code: str, folder: Path, calls: Path) -> subprocess.CompletedProcess[str]:
    """What bash does with `code` in `folder`; `calls` is an empty folder for what passes to and
    fro."""
    stand_in = calls / "logdex"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    os.mkfifo(calls / "waiting")
    waiting = os.fdopen(os.open(calls / "waiting", os.O_RDWR), "rb", buffering=0)
    path = os.pathsep.join([str(calls), str(Path(sys.executable).parent), os.environ["PATH"]])
    command = ["bash", "-euo", "pipefail", "-c", code]
    bash = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "LOGDEX_CALLS": str(calls)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with waiting, ThreadPoolExecutor(1) as pool:
        printed = pool.submit(bash.communicate)
        printed.add_done_callback(lambda _: (calls / "waiting").write_text("\n"))
        try:
            while call := waiting.readline().decode().strip():
                answer(Path(call))
        except BaseException:
            os.killpg(bash.pid, signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(command, bash.returncode, *printed.result())


def answer(call: Path) -> None:
    """Runs one command for the stand-in that waits in `call`."""
    folder, *arguments = (call / "arguments").read_text().split("\0")[:-1]
    with chdir(folder):
        ended = run(*arguments)
    (call / "stdout").write_text(ended.stdout)
    (call / "stderr").write_text(ended.stderr)
    (call / "code").write_text(f"{ended.exit_code}\n")


def run_python(code: str, folder: Path) -> str:
    """What a program prints."""
    printed = io.StringIO()
    with chdir(folder), redirect_stdout(printed):
        exec(compile(code, "block", "exec"), {"__name__": "__main__"})
    return printed.getvalue()
