"""How commands end, whatever the command: exit codes, one line on stderr, a closed pipe."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import logdex
from logdex.kafka import Log
from logdex.rocketmq import MessageStore
from tests.examples import cases
from tests.golden import rocketmq as golden
from tests.unit.rocketmq.small_stores import build, message


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "logdex", *arguments],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def run_command(body: str) -> subprocess.CompletedProcess[str]:
    """Runs a command `trial` that does `body`."""
    code = (
        "import sys\n"
        "from logdex.cli.app import app\n"
        "from logdex.errors import *\n"
        "@app.command()\n"
        f"def trial():\n    {body}\n"
        "from logdex.cli import main\n"
        "sys.argv = ['logdex', 'trial']\n"
        "main()\n"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"logdex {logdex.__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["--version"], {"numba", "pyarrow", "pyspark", "logdex.rocketmq.recognise", "logdex.kafka.directory"}),
        (["info", "store/checkpoint"], {"numba", "pyarrow", "pyspark", "logdex.kafka.directory"}),
        (["info", "store"], {"numba", "pyarrow", "pyspark", "logdex.kafka.directory"}),
    ],
    ids=["version", "info of a file", "info of a store"],
)
def test_a_command_loads_only_what_it_needs(
    arguments: list[str], unwanted: set[str], golden_store: Callable[[str], Path]
) -> None:
    code = (
        "import sys\n"
        "from logdex.cli import main\n"
        f"sys.argv = ['logdex', *{arguments!r}]\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print(sorted({unwanted!r} & set(sys.modules)), file=sys.stderr)\n"
    )
    folder = golden_store("tiny-5.5.0").parent
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    assert done.stdout
    assert done.stderr.splitlines()[-1] == "[]"


def test_help_names_the_commands() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "doctor" in done.stdout


@pytest.mark.parametrize("arguments", [["nonsense"], ["doctor", "--nonsense"], ["doctor", "--master"]])
def test_wrong_usage_is_2(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Error: " in done.stderr


def test_typed_errors_are_a_line_and_a_hint() -> None:
    done = run_command("raise UsageError('that cannot be', hint='try this')")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "logdex: that cannot be\n        try this\n"
    done = run_command("raise CorruptError('bad', path='p', position=3)")
    assert (done.returncode, done.stderr) == (1, "logdex: p: byte 3: bad\n")


def test_hints_name_what_works_on_this_machine(tmp_path: Path) -> None:
    """`logdex` if the shell finds it, else how it was started."""
    command = [sys.executable, "-m", "logdex", "rebuild", "store"]
    (tmp_path / "bin").mkdir()
    for folder, program in ((tmp_path, f"{sys.executable} -m logdex"), (tmp_path / "bin", "logdex")):
        (tmp_path / "bin" / "logdex").write_text("#!/bin/sh\n")
        (tmp_path / "bin" / "logdex").chmod(0o755)
        environ = {**os.environ, "PATH": str(folder)}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert done.stderr == f"logdex: where to?\n        {program} rebuild store --output DIR, or --in-place\n"


def test_what_nobody_expected_is_a_line_and_how_to_report_it() -> None:
    done = run_command("raise ZeroDivisionError('oh')")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "logdex: unexpected ZeroDivisionError: oh",
        "        this is a bug: please report it with what LOGDEX_DEBUG=1 shows",
    ]


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGDEX_DEBUG", "1")
    done = run_command("raise UsageError('that cannot be')")
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert done.stderr.endswith("logdex: that cannot be\n")


def test_an_error_is_one_line_whatever_is_in_it() -> None:
    done = run_command("raise UsageError('two\\nlines \\udcff')")
    assert done.stderr == "logdex: two\\x0alines \\xff\n"


def test_interrupt_is_quiet() -> None:
    done = run_command("raise KeyboardInterrupt")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_interrupt_is_quiet_while_the_command_loads() -> None:
    code = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *more):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from logdex.cli import main\n"
        "sys.argv = ['logdex', '--version']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_closed_pipe_is_quiet() -> None:
    code = "for i in range(10**6): print(i)"
    program = (
        "import sys; from logdex.cli.app import app\n"
        f"@app.command()\ndef trial():\n    {code}\n"
        "from logdex.cli import main; sys.argv = ['logdex', 'trial']; main()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


@pytest.mark.parametrize("more", cases([["--json"], []], 2))
def test_cat_into_a_closed_pipe_and_interrupted(more: list[str], tmp_path: Path) -> None:
    golden.unpack_demo(tmp_path)  # more than a pipe holds
    command = [sys.executable, "-m", "logdex", "cat", str(tmp_path / "store"), *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0
    # What runs the tests may be in the background, where shells have Ctrl-C ignored: not so for a
    # person's command.
    listening = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=listening) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
        assert (process.returncode, errors) == (130, b"")


@pytest.mark.parametrize("lines", [0, 1])
@pytest.mark.parametrize(("command", "code"), [("verify", 1), ("info", 1), ("recover", 3)])
def test_a_closed_pipe_hides_no_verdict(command: str, code: int, lines: int, tmp_path: Path) -> None:
    root = build(tmp_path / "store", [message(number, keys=f"k-{number}") for number in range(400)])
    files = sorted((root / "commitlog").iterdir())
    for path in files[1:-1:2]:
        path.unlink()
    flags = ["--mapped-file-size-commit-log", "2048", "--mapped-file-size-consume-queue", "320"]
    more = ["--json", "--output", str(tmp_path / "out")] if command == "recover" else ["--json"]
    full = [sys.executable, "-m", "logdex", command, str(root), *flags, *more]
    with subprocess.Popen(full, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for _ in range(lines):
            assert process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        assert (process.wait(), b"Error" in errors) == (code, False), errors


_COUNTING = """
import sys
from logdex.cli import main
from logdex.io.env import DEFAULT_ENV

try:
    main()
finally:
    sys.stderr.write(str(DEFAULT_ENV.counters.read_bytes + DEFAULT_ENV.counters.mapped_bytes))
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["store", "logs"])
def test_a_closed_pipe_ends_the_reading(what: str, tmp_path: Path) -> None:
    bodies, size = [b"x" * 1000] * 50_000, 50_000_000
    if what == "store":
        with MessageStore.open(tmp_path, mapped_file_size_commit_log=1 << 22) as store:
            store.put_columns(pa.table({"topic": ["t"] * len(bodies), "body": bodies}))
    else:
        with Log.open(tmp_path / "t-0", segment_bytes=1 << 22) as log:
            log.append_columns(pa.table({"value": bodies}), batch_records=1_000)
    command = [sys.executable, "-c", _COUNTING, "cat", str(tmp_path), "--json", "--jobs", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        read = process.stderr.read()
        assert process.wait() == 0
    assert 0 < int(read) < size / 2


ENDING = """
import atexit, os, signal, sys
from logdex.cli import main

class Late:
    def __del__(self, kill=os.kill, process=os.getpid(), interrupt=signal.SIGINT):
        kill(process, interrupt)

late = Late()  # deleted when Python has given up its signal handlers
atexit.register(os.kill, os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["logdex", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(("arguments", "exit_code"), [(["--version"], 0), (["info", "nowhere"], 2)])
def test_interrupted_while_python_ends(arguments: list[str], exit_code: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENDING, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == exit_code
    assert "Interrupt" not in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", ["cat", "verify"])
def test_interrupted_at_any_moment(command: str, tmp_path: Path) -> None:
    """From the first line of the output on, until a while after the end; all of `verify` prints at
    its end."""
    golden.unpack_demo(tmp_path)
    chance, codes = random.Random(command), set()
    listening = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    arguments = [sys.executable, "-m", "logdex", command, str(tmp_path / "store")]
    for _ in range(60):
        with subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=listening
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(chance.uniform(0, 0.3))
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate()
        assert (process.returncode, errors) in ((130, b""), (0, b"")), process.returncode
        codes.add(process.returncode)
    assert codes <= {0, 130}
    assert command != "cat" or 130 in codes
