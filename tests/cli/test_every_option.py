"""No value of any option, of any command, gives a traceback or "this is a bug".

The command lines begin as an example of the command's --help and have a few options more, or other
ones, whose values are drawn by the type that the option declares. So a new command, or a new
option, is covered as soon as it is there.

A command that goes on by `--follow` is ended by Ctrl-C. Three things are left out: `warm-up`, which
has no option; a Spark of its own for each command line, which would take Java's start: `--engine
spark` runs beside the session of all tests, and `doctor` as on a machine without PySpark.
"""

from __future__ import annotations

import inspect
import io
import random
import shlex
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.models import OptionInfo

from logdex.cli.commands import app
from logdex.kernels.compiled import load
from tests.cli.helpers import Ended, command_line, run
from tests.cli.small_places import make_places

NO_OPTIONS = {"warm-up"}
FOLLOW, FOLLOWED_S = "--follow", 0.5
PATHS = ["store", "logs", "logs/orders-0", "nowhere", "file", "empty", "store/consumequeue", ".", "/dev/null", ""]
NUMBERS = ["0", "1", "-1", "2", "7", str(2**31), str(2**63 - 1), str(-(2**63)), str(2**63), "9" * 25, "1.5", "x", ""]
REALS = ["0", "1", "-1", "0.5", "nan", "inf", "-inf", "1e400", "x", ""]
TEXTS = [
    *("", " ", "x", "orders", "ordres", "payments", "k", "0", "-1", "9" * 25, "first", "last", "first-last", "*"),
    *("a || b", "||", "earliest", "latest", "2026-03-03", "2026-13-01", "1e9", "0001-01-01", "9999-12-31T23:59:59Z"),
    *(
        "read_committed",
        "read_comitted",
        "UTC",
        "+99:00",
        "5.5.0",
        "3.9.2",
        "0",
        "1s 5s",
        "1x",
        "select 1",
        "☃",
        "\udcff",
    ),
    *("a/b", "..", "out/deep", "file", "store", "logs", "localhost:1", "nowhere:port", "a" * 300, "%s", "{}", "--"),
]


def examples_of(command: Any) -> list[list[str]]:
    """The examples of a command's --help that run in this process."""
    lines = [line.strip() for line in (command.epilog or "").splitlines()]
    found = [shlex.split(line)[1:] for line in lines if line.startswith(f"logdex {command.name} ")]
    return [words for words in found if "spark" not in words]


def options_of(command: Any) -> list[Any]:
    return [each for each in command.params if each.opts[0].startswith("--")]


@cache
def kinds_of(name: str) -> dict[str, Any]:
    """The type of each option of a command, as its function declares it; `str` where a parser takes
    the text."""
    callbacks = (each.callback for each in app.registered_commands if each.callback is not None)
    (callback,) = (each for each in callbacks if command_line().commands[name].callback.__name__ == each.__name__)
    found = {}
    for parameter in inspect.signature(callback, eval_str=True).parameters.values():
        declared, *marks = get_args(parameter.annotation)
        kinds = [each for each in get_args(declared) or (declared,) if each is not type(None)]
        has_parser = any(isinstance(mark, OptionInfo) and mark.parser is not None for mark in marks)
        found[parameter.name] = str if has_parser else kinds[0]
    return found


def ways_of(command: Any, option: Any) -> list[list[str]]:
    """How an option is given on the command line, with values by its type."""
    flag, kind = option.opts[0], kinds_of(command.name).get(option.name, str)
    if option.is_flag:
        return [[flag]]
    pool = NUMBERS if kind is int else REALS if kind is float else TEXTS
    if isinstance(kind, type) and issubclass(kind, Enum):
        pool = [*(str(each.value) for each in kind if each.value != "spark"), *TEXTS]
    return [[flag, value] for value in pool]


@st.composite
def command_lines(draw: st.DrawFn, name: str | None = None) -> list[str]:
    commands = {each: one for each, one in command_line().commands.items() if each not in NO_OPTIONS}
    command = commands[draw(st.sampled_from(sorted(commands)) if name is None else st.just(name))]
    words = list(draw(st.sampled_from(examples_of(command))))
    if draw(st.integers(0, 3)) == 0 and len(words) > 1:
        words[1] = draw(st.sampled_from(PATHS))
    if draw(st.integers(0, 5)) == 0:
        del words[draw(st.integers(1, len(words) - 1)) if len(words) > 2 else -1]
    options = options_of(command)
    for option in draw(st.lists(st.sampled_from(options), max_size=3)):
        words += draw(st.sampled_from(ways_of(command, option)))
    return words


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_places(tmp_path_factory.mktemp("places"))


@contextmanager
def copied(places: Path) -> Iterator[None]:
    """A copy of the places is the current directory; what commands write goes there."""
    with tempfile.TemporaryDirectory(prefix="logdex-options-") as folder:
        shutil.copytree(places, folder, dirs_exist_ok=True)
        Path(folder, "file").write_text("x\n")
        Path(folder, "empty").mkdir()
        with chdir(folder):
            yield


@contextmanager
def ended_by_ctrl_c(after_s: float) -> Iterator[None]:
    """Ctrl-C comes after a while, unless the block has ended."""
    main, is_armed = threading.main_thread().ident, True

    def interrupt(*_: object) -> None:
        if is_armed:
            raise KeyboardInterrupt

    assert main is not None
    former = signal.signal(signal.SIGINT, interrupt)
    timer = threading.Timer(after_s, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    try:
        yield
    finally:
        is_armed = False
        timer.cancel()
        timer.join()
        signal.signal(signal.SIGINT, former)


def run_to_the_end(words: list[str]) -> Ended:
    """Runs a command line, with Ctrl-C for one that follows."""
    if FOLLOW not in words:
        return run(*words)
    with ended_by_ctrl_c(FOLLOWED_S):
        try:
            return run(*words)
        except KeyboardInterrupt:
            return Ended(CTRL_C, "", "")


CTRL_C = 130


def check(words: list[str], places: Path) -> None:
    if FOLLOW in words:  # nothing may be half imported where Ctrl-C comes
        check([word for word in words if word != FOLLOW], places)
        load()
    stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(b'{"value": "x"}\nx\n'))
    try:
        with copied(places), pytest.MonkeyPatch.context() as patch:
            if words[:1] == ["completion"]:  # it writes into the home directory
                patch.setenv("HOME", str(Path.cwd()))
            if words[:1] == ["doctor"]:
                patch.setitem(sys.modules, "pyspark", None)
            ended = run_to_the_end(words)
    finally:
        sys.stdin = stdin
    assert ended.exit_code in (0, 1, 2, 3, CTRL_C), (words, ended)
    for bad in ("Traceback", "this is a bug", "logdex: unexpected "):
        assert bad not in ended.stderr, (words, ended)
    if ended.exit_code == 2:
        found = ended.stdout if words[:1] == ["doctor"] else ""  # what doctor finds is its data
        assert (ended.stderr + found).strip(), words


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(words=command_lines())
def test_any_value_of_any_option(words: list[str], places: Path) -> None:
    check(words, places)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(set(command_line().commands) - NO_OPTIONS))
def test_any_value_of_each_command(name: str, places: Path) -> None:
    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
    @given(words=command_lines(name))
    def every(words: list[str]) -> None:
        check(words, places)

    every()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(set(command_line().commands) - NO_OPTIONS))
def test_each_value_of_each_option(name: str, places: Path) -> None:
    """Some values of each option, one at a time, behind the first example of each kind of path."""
    command, chance = command_line().commands[name], random.Random(name)
    bases = {" ".join(words[1:2]).partition("/")[0]: words for words in reversed(examples_of(command))}
    for words in bases.values():
        for option in options_of(command):
            ways = ways_of(command, option)
            for way in chance.sample(ways, min(len(ways), 6)):
                check([*words, *way], places)


def test_what_is_left_out_has_no_options() -> None:
    for name in NO_OPTIONS:
        assert options_of(command_line().commands[name]) == []


def engines() -> list[str]:
    """The commands that run on Spark, too."""
    return [
        name for name, one in command_line().commands.items() if any("--engine" in each.opts for each in one.params)
    ]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", engines())
def test_some_values_of_options_beside_spark(name: str, places: Path) -> None:
    """Each option of a command that runs on Spark, with a value of its own."""
    command, chance = command_line().commands[name], random.Random(name)
    bases = [[*words, "--engine", "spark", "--master", "local[2]"] for words in examples_of(command)]
    for option in options_of(command):
        if not {"--engine", "--master", FOLLOW} & set(option.opts):
            check([*chance.choice(bases), *chance.choice(ways_of(command, option))], places)
    check([*bases[0], "--master", chance.choice(TEXTS)], places)
