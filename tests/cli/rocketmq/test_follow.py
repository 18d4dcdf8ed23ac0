"""`logdex follow`: what it prints, how it ends, and what it refuses."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from logdex.rocketmq.ha.wire import pack_transfer
from tests.cli.helpers import run, run_json
from tests.cli.test_help import examples
from tests.cli.test_terminal import Terminal, run_at_terminal
from tests.unit.rocketmq.ha.masters import Master, filled_store, log_bytes, plain, serving
from tests.unit.rocketmq.message_store.open_stores import SIZES, require_sound

FLAGS = [part for name, size in SIZES.items() for part in ("--" + name.replace("_", "-"), str(size))]


@pytest.fixture
def log(tmp_path: Path) -> bytes:
    return filled_store(tmp_path / "master")


@pytest.fixture
def master(log: bytes) -> Iterator[Master]:
    with serving(plain(log)) as found:
        yield found


def test_follow(master: Master, log: bytes, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    done = run("follow", master.address, "--output", copy, "--until-caught-up", *FLAGS)
    assert done.exit_code == 0, done
    first, second, third = done.stdout.splitlines()
    assert first == f"{copy}: followed {master.address} from offset 0 to {len(log)}"
    assert second.startswith("  60 messages, ")
    assert third == f"  acknowledged up to offset {len(log)}"
    assert log_bytes(copy) == log_bytes(tmp_path / "master")
    require_sound(copy)
    [again] = run_json("follow", master.address, "--output", copy, "--until-caught-up", *FLAGS)
    assert (again["start_offset"], again["messages"], again["caught_up"]) == (len(log), 0, True)


def test_tap_and_last_file(master: Master, log: bytes, tmp_path: Path) -> None:
    options = ("--tap", "--from-last-file", "--until-caught-up")
    [report] = run_json("follow", master.address, "--output", tmp_path / "copy", *options, *FLAGS)
    begin = len(log) // 4096 * 4096
    assert (report["start_offset"], report["end_offset"], report["acknowledged"]) == (begin, len(log), begin)


@pytest.mark.parametrize("example", examples("follow"))
def test_examples_run(example: str, golden: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(plain(golden, batch=32 << 10, file_size=1 << 30)) as found:
        done = run(*shlex.split(example.replace("127.0.0.1:10912", found.address))[1:])
    assert done.exit_code == 0, done
    assert done.stdout


@pytest.fixture
def golden(tmp_path: Path) -> bytes:
    return filled_store(tmp_path / "golden", mapped_file_size_commit_log=1 << 16)


def test_at_a_terminal(master: Master, tmp_path: Path) -> None:
    arguments = ("follow", master.address, "--output", str(tmp_path / "copy"), "--until-caught-up", *FLAGS)
    terminal = Terminal()
    code, told = run_at_terminal(terminal.file, *arguments)
    assert (code, terminal.text.count("\n")) == (0, 3)
    assert "follow" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("127.0.0.1", "--output", "x"), "'127.0.0.1' is no address"),
        (("127.0.0.1:1", "--output", "x", "--from-start", "--from-last-file"), "exclude each other"),
        (("127.0.0.1:1", "--output", "x"), "connection refused"),
        (("127.0.0.1:1",), "--output"),
    ],
)
def test_what_cannot_run(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("follow", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr


def test_another_log(master: Master, tmp_path: Path) -> None:
    filled_store(tmp_path / "copy", 70, born_host="10.0.0.1:5")
    done = run("follow", master.address, "--output", tmp_path / "copy", *FLAGS)
    assert done.exit_code == 1
    assert "differs at offset" in done.stderr or "does not have offset" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_it_cleanly(number: int, code: int, log: bytes, tmp_path: Path) -> None:
    def behave(own: socket.socket, request: int) -> None:
        plain(log)(own, request)
        while True:
            time.sleep(0.1)
            own.sendall(pack_transfer(len(log)))

    with serving(behave) as found:
        command = [
            sys.executable,
            "-m",
            "logdex",
            "follow",
            found.address,
            "--output",
            str(tmp_path / "copy"),
            "--json",
        ]
        with subprocess.Popen([*command, *FLAGS], stdout=subprocess.PIPE, env=dict(os.environ)) as process:
            until = time.monotonic() + 120
            while not (tmp_path / "copy" / "commitlog").exists() or not log_bytes(tmp_path / "copy").startswith(log):
                assert time.monotonic() < until
                time.sleep(0.05)
            process.send_signal(number)
            out, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert json.loads(out)["end_offset"] == len(log)
    assert not (tmp_path / "copy" / "abort").exists()
    assert log_bytes(tmp_path / "copy") == log_bytes(tmp_path / "master")
