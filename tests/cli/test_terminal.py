"""Every command with its stderr at a terminal: whatever stdout is, the data goes there, all of it.

A progress bar is shown only where stderr is a terminal, so what it does to stdout is seen only
there.
"""

from __future__ import annotations

import itertools
import os
import pty
import re
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import Ended, command_line, run
from tests.examples import cases

COMMANDS: dict[str, tuple[str, ...]] = {
    "info": ("info", "{store}"),
    "info of Kafka": ("info", "{logs}"),
    "cat": ("cat", "{store}"),
    "cat as JSON": ("cat", "{store}", "--json"),
    "cat by a template": ("cat", "{store}", "--format", r"%t/%p\t%o\t%k\t%v\n"),
    "cat of Kafka by a template": ("cat", "{logs}", "--format", r"%t/%p\t%o\t%k\t%v\n"),
    "cat of columns": ("cat", "{logs}", "--columns", "topic,offset,value", "--values", "hex"),
    "cat that waits": ("cat", "{store}", "--follow", "--limit", "5"),
    "cat of Kafka that waits": ("cat", "{logs}", "--follow", "--limit", "5"),
    "cat of Kafka": ("cat", "{logs}"),
    "cat of Kafka as JSON": ("cat", "{logs}", "--json"),
    "get": ("get", "{store}", "--topic", "TopicA", "--queue", "0", "--offset", "0"),
    "get of Kafka": ("get", "{logs}/orders-0", "--offset", "0"),
    "query": ("query", "{store}", "--topic", "AaTopic", "--key", "tail"),
    "query of Kafka": ("query", "{logs}/audit.log-0", "--key", "key-181"),
    "message": ("message", "{store}", "7F00000131FE5FFD2B2769995AC90000", "--topic", "AaTopic"),
    "verify": ("verify", "{store}"),
    "verify of Kafka": ("verify", "{logs}"),
    "rebuild": ("rebuild", "{store}", "--output", "{output}"),
    "rebuild of Kafka": ("rebuild", "{logs}", "--output", "{output}"),
    "recover": ("recover", "{logs}", "--output", "{output}"),
    "filter": ("filter", "{store}", "--topic", "TopicA", "--output", "{output}"),
    "filter of Kafka": ("filter", "{logs}", "--offset", "3", "--output", "{output}"),
    "put": ("put", "{output}", "--create", "rocketmq", "--topic", "T", "--body", "hello"),
    "put of Kafka": ("put", "{output}/T-0", "--create", "kafka", "--value", "hello"),
    "consume": ("consume", "{copy}", "--topic", "TopicA", "--group", "G"),
    "offsets of Kafka": ("offsets", "{logs}", "--topic", "orders", "--group", "G"),
    "offsets": ("offsets", "{store}", "--topic", "TopicA", "--group", "G"),
    "bench": ("bench", "{store}"),
    "bench of Kafka": ("bench", "{logs}"),
}


class Terminal:
    """A pseudo-terminal; `text` is what was written to it."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        self.file = os.fdopen(slave, "w", encoding="utf-8", errors="backslashreplace")
        self._parts: list[bytes] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self._master, 1 << 16)
            except OSError:  # the other side is closed
                return
            if not part:
                return
            self._parts.append(part)

    @property
    def text(self) -> str:
        self.file.close()
        self._reader.join()
        os.close(self._master)
        return b"".join(self._parts).decode().replace("\r\n", "\n")


def to_file(tmp_path: Path) -> tuple[Any, Callable[[], str]]:
    out = (tmp_path / "out").open("w", encoding="utf-8")

    def text() -> str:
        out.close()
        return (tmp_path / "out").read_text("utf-8")

    return out, text


def to_pipe(_: Path) -> tuple[Any, Callable[[], str]]:
    read_end, write_end = os.pipe()
    out = os.fdopen(write_end, "w", encoding="utf-8")
    parts: list[str] = []
    with_input = os.fdopen(read_end, encoding="utf-8")
    reader = threading.Thread(target=lambda: parts.append(with_input.read()))
    reader.start()

    def text() -> str:
        out.close()
        reader.join()
        with_input.close()
        return parts[0]

    return out, text


def to_terminal(_: Path) -> tuple[Any, Callable[[], str]]:
    terminal = Terminal()
    return terminal.file, lambda: terminal.text


def timeless(text: str) -> str:
    """The text without what differs from run to run: numbers, and the room that they take."""
    return re.sub(r"[\d.,]+ *(?:[KMGT]?i?B|[kM])?", "#", re.sub(r" {2,}", " ", text))


def run_at_terminal(stdout: Any, *arguments: str) -> tuple[int, str]:
    """`logdex ARGUMENTS` with stderr at a terminal: the exit code, and what was written to
    stderr."""
    stderr, code = Terminal(), 0
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = stdout, stderr.file
    try:
        command_line().main(args=list(arguments), prog_name="logdex")
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.stdout, sys.stderr = kept
        stdout.flush()
    return code, stderr.text


EXPECTED: dict[str, tuple[Ended, str]] = {}
"""What each command prints without a terminal, and where it wrote to if it wrote."""


def a_copy(store: str, place: Path) -> str:
    """A store for a command that writes into it."""
    return str(shutil.copytree(store, place))


@pytest.mark.parametrize(("name", "place"), cases(itertools.product(COMMANDS, [to_file, to_pipe, to_terminal]), 4))
def test_all_data_goes_to_stdout(
    name: str,
    place: Callable[[Path], tuple[Any, Callable[[], str]]],
    tmp_path: Path,
    golden_store: Callable[[str], Path],
    golden_log: Callable[[str], Path],
) -> None:
    paths = {"store": str(golden_store("tiny-5.5.0")), "logs": str(golden_log("tiny-broker"))}
    copies = [a_copy(paths["store"], tmp_path / each) if "{copy}" in COMMANDS[name] else "" for each in ("a", "b")]
    arguments = [each.format(output=tmp_path / "output-a", copy=copies[0], **paths) for each in COMMANDS[name]]
    if name not in EXPECTED:
        EXPECTED[name] = run(*arguments), arguments[-1]
    expected, output = EXPECTED[name]
    arguments = [each.format(output=tmp_path / "output-b", copy=copies[1], **paths) for each in COMMANDS[name]]
    stdout, text = place(tmp_path)
    code, told = run_at_terminal(stdout, *arguments)
    found = text()
    assert code == expected.exit_code == 0, told
    assert expected.stdout
    assert timeless(found.replace(str(tmp_path / "output-b"), output)) == timeless(expected.stdout)
