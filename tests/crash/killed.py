"""Processes that are killed with SIGKILL at a random moment: forked writers, and commands.

Writers are forked from a process of its own, without threads: that keeps it simple and quick.
"""

from __future__ import annotations

import os
import random
import select
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Sequence


def tell(pipe: int, offset: int) -> None:
    """Tells the pipe what is acknowledged: the offset behind it."""
    os.write(pipe, struct.pack(">q", offset))


def acknowledged(pipe: int) -> int:
    """The last offset that the pipe tells of, once its writer is gone; -1 for none."""
    last = -1
    while len(data := os.read(pipe, 8)) == 8:
        (last,) = struct.unpack(">q", data)
    return last


def kill_writers(write: Callable[[int, int], None], check: Callable[[int], int], rounds: int, seed: int) -> int:
    """Forks `write(pipe, seed)`, which never ends by itself, and kills it, `rounds` times. After
    each, `check(known)` requires what was acknowledged and returns the end that it found. Returns
    the last end."""
    chance, known = random.Random(seed), 0
    for number in range(rounds):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            try:
                write(writer, seed * 1000 + number)
            finally:
                os._exit(1)
        os.close(writer)
        if chance.random() < 0.8:  # else it may be killed while it opens what it writes
            select.select([reader], [], [], 30)
        time.sleep(chance.uniform(0.0, 0.1))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"round {number}: the writer ended by itself ({status})"
        known = max(known, acknowledged(reader))
        os.close(reader)
        known = check(known)
    return known


def kill_command(command: Sequence[str], chance: random.Random) -> float:
    """Starts a command that never ends by itself, and kills it within a second of its first line.
    Returns how many seconds after it."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline(), "the command ended by itself"
        delay_s = chance.random()
        time.sleep(delay_s)
        process.kill()
    return delay_s
