"""What a command prints reaches stdout as a whole, or the command says that it did not."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import typer

from logdex.cli.app import errors_told
from logdex.errors import UsageError
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from tests.directories import contents
from tests.examples import cases, some


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that is printed in bulk."""
    directory = tmp_path_factory.mktemp("logs") / "t-0"
    with Log.open(directory) as log:
        for _ in range(6):
            log.append([Record(b"k", b"x" * 100)] * 9_000)
    return directory


def printed(logs: Path, target: Path, *, unbuffered: bool, size_max: int) -> subprocess.CompletedProcess[bytes]:
    """Runs `cat` into a file that can have `size_max` bytes."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_max, size_max))

    environment = {**os.environ, "PYTHONUNBUFFERED": "1" if unbuffered else ""}
    command = [sys.executable, "-m", "logdex", "cat", str(logs)]
    with target.open("wb") as file:
        return subprocess.run(
            command, stdout=file, stderr=subprocess.PIPE, env=environment, preexec_fn=limit, check=False
        )


@pytest.mark.parametrize("unbuffered", cases([False, True], 2))
def test_a_full_disk_is_told(unbuffered: bool, logs: Path, tmp_path: Path) -> None:
    whole = printed(logs, tmp_path / "whole", unbuffered=unbuffered, size_max=1 << 30)
    size = (tmp_path / "whole").stat().st_size
    assert (whole.returncode, size > 4 << 20) == (0, True)
    for missing in some((1, 100, size // 2), 3, first=int(unbuffered)):
        cut = printed(logs, tmp_path / "cut", unbuffered=unbuffered, size_max=size - missing)
        assert cut.returncode == 2
        assert cut.stderr.splitlines()[-1].startswith(b"logdex: output: ")
        assert b"Traceback" not in cut.stderr


@pytest.mark.parametrize("flags", cases(["", "--json", "--limit 9"], 3, first=1))
def test_a_full_device_is_told_in_one_line(flags: str, logs: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "logdex", "cat", str(logs), *flags.split()]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=environment, check=False)
    assert (done.returncode, done.stderr) == (2, b"logdex: output: no space left on device\n")


@pytest.mark.parametrize("arguments", cases(["--help", "info LOGS", "cat LOGS --limit 9"], 3, first=1))
@pytest.mark.parametrize("stdout", [">&-", ">/dev/full"])
def test_a_stdout_that_takes_nothing_is_told_in_one_line(arguments: str, stdout: str, logs: Path) -> None:
    command = f"{sys.executable} -m logdex {arguments.replace('LOGS', str(logs))} {stdout}"
    done = subprocess.run(command, shell=True, capture_output=True, check=False)
    reason = b"bad file descriptor" if stdout == ">&-" else b"no space left on device"
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"logdex: output: " + reason + b"\n")


def test_an_error_is_told_where_stdout_takes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Path("/dev/full").open("w") as full, redirect_stdout(full):
        full.write("a row")
        with pytest.raises(typer.Exit) as ended, errors_told():
            raise UsageError("a reason")
    assert (ended.value.exit_code, capsys.readouterr().err) == (2, "logdex: a reason\n")


@pytest.mark.parametrize("closed", cases(["2>&-", "<&- 2>&-"], 2, first=1))
def test_closed_stdin_and_stderr_change_no_output(closed: str, logs: Path) -> None:
    command = f"{sys.executable} -m logdex cat {logs} --limit 9"
    whole = subprocess.run(command, shell=True, capture_output=True, check=True)
    done = subprocess.run(f"{command} {closed}", shell=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, whole.stdout)


def test_no_file_takes_the_descriptor_of_a_closed_stream(logs: Path, tmp_path: Path) -> None:
    command = f"{sys.executable} -m logdex rebuild {logs} --json --output"
    subprocess.run(f"{command} {tmp_path / 'sound'}", shell=True, check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(f"{command} {tmp_path / 'rebuilt'} >&- 2>&-", shell=True, check=False)
    assert done.returncode == 2  # the report could not be printed
    assert contents(tmp_path / "rebuilt") == contents(tmp_path / "sound")
