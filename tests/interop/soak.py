"""A soak: reading commands run in loops beside a real broker that is written to, killed, restarted
and upgraded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from logdex.cli.app import DONE_BUT_LOSSY

SECONDS = int(os.environ.get("LOGDEX_SOAK_SECONDS", "60"))
"""How long one soak takes. Twenty minutes (1200) is what a release is given."""
COMMAND_TIMEOUT_S = 1800
"""Long, because the machine may be busy with other things."""


class Beside:
    """Runs looks (functions that raise where an answer is wrong) in turn, in loops of their own
    threads, until it is closed. `problems` holds what was raised, `rounds` how often each look
    ended, by name."""

    def __init__(self, looks: dict[str, Callable[[], None]]) -> None:
        self.problems: list[str] = []
        self.rounds = dict.fromkeys(looks, 0)
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._loop, args=pair) for pair in looks.items()]

    def __enter__(self) -> Beside:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(2 * COMMAND_TIMEOUT_S)

    def _loop(self, name: str, look: Callable[[], None]) -> None:
        while not self._over.wait(0.1):
            try:
                look()
            except AssertionError as error:
                self._note(name, str(error))
            except Exception:
                self._note(name, traceback.format_exc(limit=-12))
            self.rounds[name] += 1

    def _note(self, name: str, text: str) -> None:
        self.problems.append(f"{time.strftime('%H:%M:%S')} {name}: {text}")


def logdex(*arguments: object, allowed: Sequence[int] = (0,)) -> str:
    """What the command prints. Raises where its exit code is not among `allowed`."""
    command = [sys.executable, "-m", "logdex", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=COMMAND_TIMEOUT_S, check=False)
    if done.returncode not in allowed:
        lines = [line for line in done.stdout.decode(errors="replace").splitlines() if line.startswith('{"check"')]
        told = "\n".join([*lines[:20], done.stderr[-1500:].decode(errors="replace")])
        raise AssertionError(f"exit {done.returncode}: logdex {' '.join(map(str, arguments))}\n{told}")
    return done.stdout.decode()


@contextmanager
def recovered(source: Path, output: Path, *options: object) -> Iterator[Path]:
    """Recovers `source` to `output` for a block, and removes it again."""
    shutil.rmtree(output, ignore_errors=True)
    logdex("recover", source, "--output", output, "--no-sync", *options, allowed=(0, DONE_BUT_LOSSY))
    yield output
    shutil.rmtree(output, ignore_errors=True)


def rebuild_elsewhere(source: Path, output: Path, *options: object) -> None:
    """Rebuilds the derived files of `source` into `output`, and removes them again."""
    shutil.rmtree(output, ignore_errors=True)
    logdex("rebuild", source, "--output", output, *options)
    shutil.rmtree(output, ignore_errors=True)
