"""`logdex rebuild` in a process of its own, killed with SIGKILL at random moments, over and over
into one output."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from logdex.io.name_changes import STAGING_PREFIX
from tests.crash.rocketmq.stores import CONFIG, make_outputs
from tests.crash.trees import Outputs, fingerprint, put_tree

BIG = replace(CONFIG, mapped_file_size_commit_log=1 << 18, mapped_file_size_consume_queue=20 * 64, max_index_num=300)
SERVER = """
import os, sys
from logdex.cli import main
answers = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
output = sys.argv.index("--output") + 1
usual, sys.argv[output] = sys.argv[output], sys.argv[output] + "-first"
try:
    main()
except SystemExit as end:
    assert not end.code
sys.argv[output] = usual
while sys.stdin.readline():
    child = os.fork()
    if child == 0:
        main()
    print(child, file=answers, flush=True)
    sys.stdin.readline()  # until then the child keeps its number, even if it has ended
    print(os.waitpid(child, 0)[1], file=answers, flush=True)
"""
"""Forks a rebuild for each line, after one that loads all that it takes: so that rebuilding is
killed, not loading."""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    return make_outputs(tmp_path_factory.mktemp("kill"), 3000, BIG)


def arguments(outputs: Outputs, output: Path) -> list[str]:
    flags = {
        "--output": output,
        "--engine": "local",
        "--mapped-file-size-commit-log": BIG.mapped_file_size_commit_log,
        "--mapped-file-size-consume-queue": BIG.mapped_file_size_consume_queue,
        "--max-hash-slot-num": BIG.max_hash_slot_num,
        "--max-index-num": BIG.max_index_num,
        "--rocketmq-version": "5.5.0",
    }
    return ["rebuild", str(outputs.source), *(str(part) for flag in flags.items() for part in flag)]


@contextmanager
def server(outputs: Outputs, output: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "ignore", "-c", SERVER, *arguments(outputs, output)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def forked(
    process: subprocess.Popen[str], kill_after_s: float | None, when: Callable[[], bool] = lambda: True
) -> tuple[float, int]:
    """Runs one rebuild, and kills it some time after `when` holds, which is waited for ten seconds
    at most. Gives how long it took (s) and its wait status."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("start\n")
    process.stdin.flush()
    child = int(process.stdout.readline())
    started = time.perf_counter()
    if kill_after_s is not None:
        while not when() and time.perf_counter() < started + 10:
            time.sleep(0.0005)
        time.sleep(kill_after_s)
        os.kill(child, signal.SIGKILL)
    process.stdin.write("wait\n")
    process.stdin.flush()
    status = int(process.stdout.readline())
    return time.perf_counter() - started, status


def kill_often(outputs: Outputs, output: Path, kills: int) -> int:
    """Kills `kills` rebuilds: half of them at any moment, half of them once their staging folder is
    there. Gives how many left one."""

    def staging() -> set[str]:
        return {path.name for path in output.iterdir() if path.name.startswith(STAGING_PREFIX)}

    def has_other_staging(left: set[str]) -> bool:
        return not staging() <= left

    store = fingerprint(outputs.source)
    put_tree(outputs.old, output)
    chance, caught = random.Random(kills), 0
    with server(outputs, output) as process:
        usual_s = min(forked(process, None)[0] for _ in range(3))
        for number in range(kills):
            if number % 2:
                forked(process, chance.uniform(0, 1.1 * usual_s))
            else:
                forked(process, chance.uniform(0, 0.3 * usual_s), partial(has_other_staging, staging()))
            outputs.check(output, had_old=True)
            caught += bool(staging())
        assert forked(process, None)[1] == 0
    outputs.check(output, had_old=True)
    outputs.check_done(output)
    assert fingerprint(outputs.source) == store
    return caught


@pytest.mark.slow
def test_killed_at_many_random_moments(outputs: Outputs, tmp_path: Path) -> None:
    """Beside other load, few of the moments are within the writing."""
    assert kill_often(outputs, tmp_path / "out", 200) >= 3


def test_the_command_itself_killed_while_it_writes(outputs: Outputs, tmp_path: Path) -> None:
    """`python -m logdex`, killed as soon as its staging folder is there, then run again."""
    output = tmp_path / "out"
    put_tree(outputs.old, output)
    command = [sys.executable, "-m", "logdex", *arguments(outputs, output)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not list(output.glob(f"{STAGING_PREFIX}*")):
            time.sleep(0.001)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    outputs.check(output, had_old=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    outputs.check(output, had_old=True)
    outputs.check_done(output)
