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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.helpers import Ended, command_line, run
from tests.examples import cases
from tests.unit.rocketmq.ha.masters import filled_store, plain, serving
from tests.unit.rocketmq.message_store.open_stores import SIZES

FLAGS = [part for name, size in SIZES.items() for part in ("--" + name.replace("_", "-"), str(size))]
RESET = ("--group", "G", "--yes")
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
    "recover": ("recover", "{store}", "--output", "{output}"),
    "recover of Kafka": ("recover", "{logs}", "--output", "{output}"),
    "filter": ("filter", "{store}", "--topic", "TopicA", "--output", "{output}"),
    "filter of Kafka": ("filter", "{logs}", "--offset", "3", "--output", "{output}"),
    "put": ("put", "{output}", "--create", "rocketmq", "--topic", "T", "--body", "hello"),
    "put of Kafka": ("put", "{output}/T-0", "--create", "kafka", "--value", "hello"),
    "consume": ("consume", "{copy}", "--topic", "TopicA", "--group", "G"),
    "consume of Kafka": ("consume", "{logs_copy}", "--topic", "orders", "--group", "G", "--limit", "3"),
    "offsets of Kafka": ("offsets", "{logs}", "--topic", "orders", "--group", "G"),
    "offsets": ("offsets", "{store}", "--topic", "TopicA", "--group", "G"),
    "offsets that are reset": (
        *["offsets", "{copy}", "--topic", "TopicA", "--group", "G", "--reset-to", "latest", "--yes"],
    ),
    "offsets of Kafka that are reset": (
        *["offsets", "{logs_copy}", "--topic", "orders", "--group", "G", "--reset-to", "1", "--yes"],
    ),
    "sql": ("sql", "{store}", "SELECT topic, queue_offset FROM messages ORDER BY ALL"),
    "sql of Kafka as JSON": ("sql", "{logs}", "SELECT topic, key FROM records ORDER BY ALL", "--json"),
    "sql as CSV": ("sql", "{store}", "SELECT * FROM segments", "--csv"),
    "stats": ("stats", "{store}"),
    "stats of Kafka": ("stats", "{logs}", "--json"),
    "export": ("export", "{store}", "--output", "{output}"),
    "export of Kafka": ("export", "{logs}", "--output", "{output}"),
    "convert": ("convert", "{store}", "--to", "kafka", "--output", "{output}"),
    "convert of Kafka": ("convert", "{logs}", "--to", "rocketmq", "--topic", "orders", "--output", "{output}"),
    "import": ("import", "{table}", "--format", "kafka", "--output", "{output}"),
    "dispatch": ("dispatch", "{store}", "--output", "{output}"),
    "dispatch of Kafka": ("dispatch", "{logs}", "--output", "{output}"),
    "follow": ("follow", "{master}", "--until-caught-up", *FLAGS, "--output", "{output}"),
    "completion": ("completion", "bash"),
    "doctor": ("doctor",),
    "warm-up": ("warm-up",),
    "bench": ("bench", "{store}"),
    "bench of Kafka": ("bench", "{logs}"),
}


LOSSY = {"convert": 3, "convert of Kafka": 3, "filter of Kafka": 3}
"""The store has half messages, which no topic of Kafka's could hold; the logs have an open
transaction."""

WITH_BARS = ("rebuild", "verify", "export", "convert", "import", "stats", "recover", "dispatch")
"""The jobs that show a progress bar."""


def test_every_command_is_there() -> None:
    assert {arguments[0] for arguments in COMMANDS.values()} == set(command_line().commands)


class Terminal:
    """A pseudo-terminal; `text` is what was written to it."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        self.file = os.fdopen(slave, "w", encoding="utf-8", errors="backslashreplace")
        self._parts: list[bytes] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
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
    reader = threading.Thread(target=lambda: parts.append(with_input.read()), daemon=True)
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


EXACT = {"cat", "get", "query", "message", "sql", "offsets"}
"""Commands whose output says nothing of how long they took or of how large a file became."""
EXPECTED: dict[str, tuple[Ended, str]] = {}
"""What each command prints without a terminal, and where it wrote to if it wrote."""


@contextmanager
def things(arguments: tuple[str, ...], paths: dict[str, str], place: Path) -> Iterator[list[str]]:
    """The arguments of a command, with what it needs of its own at a place: directories to write
    into, a table to import, a master to follow."""
    place.mkdir()
    wanted, own = {part for part in arguments if part.startswith("{")}, {"output": str(place / "output")}
    with ExitStack() as stack:
        for name, root in ("{copy}", paths["store"]), ("{logs_copy}", paths["logs"]):
            if name in wanted:
                own[name[1:-1]] = str(shutil.copytree(root, place / "copy"))
        if "{table}" in wanted:
            own["table"] = str(place / "orders.parquet")
            rows = {"topic": ["orders"] * 3, "key": [b"a", b"b", None], "value": [b"1", b"2", b"3"]}
            pq.write_table(pa.table(rows), own["table"])
        if "{master}" in wanted:
            own["master"] = stack.enter_context(serving(plain(filled_store(place / "master")))).address
        yield [each.format(**paths, **own) for each in arguments]


@pytest.mark.parametrize(("name", "place"), cases(itertools.product(COMMANDS, [to_file, to_pipe, to_terminal]), 4))
def test_all_data_goes_to_stdout(
    name: str,
    place: Callable[[Path], tuple[Any, Callable[[], str]]],
    tmp_path: Path,
    golden_store: Callable[[str], Path],
    golden_log: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if COMMANDS[name][0] == "sql":
        pytest.importorskip("duckdb")
    if name == "doctor":  # its Spark has tests of its own
        monkeypatch.setitem(sys.modules, "pyspark", None)
    paths = {"store": str(golden_store("tiny-5.5.0")), "logs": str(golden_log("tiny-broker"))}
    if name not in EXPECTED:
        with things(COMMANDS[name], paths, tmp_path / "a") as arguments:
            EXPECTED[name] = run(*arguments), str(tmp_path / "a")
    expected, where = EXPECTED[name]
    stdout, text = place(tmp_path)
    with things(COMMANDS[name], paths, tmp_path / "b") as arguments:
        code, told = run_at_terminal(stdout, *arguments)
    found = text()
    assert code == expected.exit_code == LOSSY.get(name, 0), told
    assert expected.stdout
    found = found.replace(str(tmp_path / "b"), where)
    if COMMANDS[name][0] in EXACT:
        assert found == expected.stdout
    else:
        assert timeless(found) == timeless(expected.stdout)
    if COMMANDS[name][0] in WITH_BARS:
        bar = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", told)
        shown = re.findall(rf"\r{COMMANDS[name][0]} ━+.* [1-9][\d,]* messages +([\d.]+)/([\d.]+) (?:KiB|bytes)", bar)
        assert shown, bar
        assert all(float(done) <= float(total) for done, total in shown), bar
        assert "━" not in expected.stderr
