"""Every format has a view of every command, with the same functions; commands find them, and look
at PATH once."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from logdex.cli.commands import app
from logdex.cli.find_view import view_of, view_options
from logdex.cli.options import PathOptions
from logdex.cli.rows.row_options import ROW_PARAMETERS
from logdex.formats import FORMATS
from logdex.io.path_look import PathLook
from tests.cli.helpers import run
from tests.golden import kafka as golden_kafka
from tests.golden import rocketmq as golden

SHOWN = ["cat", "get", "query", "message", "consume"]
FUNCTIONS = {
    "bench": {"measure": ["found", "settings", "chance", "folder"]},
    "info": {"parts": ["look"], "print_overview": ["found", "look"]},
    "rebuild": {
        "note_in_place": ["output"],
        "source": ["report"],
        "rows": ["report", "output"],
        "print_notes": ["found", "report"],
    },
}


def options_of(command: str) -> set[str]:
    """The options of a command itself, without PATH, the settings and those that only the command
    looks at."""
    callbacks = [each.callback for each in app.registered_commands if each.callback is not None]
    (callback,) = (each for each in callbacks if each.__name__ == command)
    settings = {name for each in FORMATS.values() for name in each.setting_names}
    ways = {name for name, _, _ in ROW_PARAMETERS}
    return set(inspect.signature(callback).parameters) - (settings - {"key_index"}) - {"path"} - ways | {"rows"}


@pytest.mark.parametrize("command", SHOWN)
def test_the_options_of_the_views_are_those_of_the_command(command: str) -> None:
    taken = {name: view_options(name, command) for name in FORMATS}
    for format_name in FORMATS:
        found, settings, *_ = inspect.signature(view_of(format_name, command).show).parameters
        assert (found, settings) == ("found", "settings")
    assert {option for options in taken.values() for option in options} == options_of(command)


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_format_has_the_views_of_all_other_commands(format_name: str) -> None:
    for command, functions in FUNCTIONS.items():
        for name, parameters in functions.items():
            assert list(inspect.signature(getattr(view_of(format_name, command), name)).parameters) == parameters


def test_flags_are_those_of_the_command_line() -> None:
    target = PathOptions("p", flags={"isolation": "--isolation-level"})
    assert [target.flag(name) for name in ("isolation", "max_index_num")] == ["--isolation-level", "--max-index-num"]
    more = target.with_settings(key_index=False, segment_bytes=0, kafka_version=None)
    assert more.settings == {"segment_bytes": 0}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store in `store` and a log directory in `logs`; only read it."""
    root = tmp_path_factory.mktemp("once")
    golden.unpack("tiny-5.5.0", root)
    golden_kafka.unpack("tiny-broker", root / "logs")
    return root


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were looked at."""
    paths: list[str] = []
    begin = PathLook.__init__

    def noted(self: PathLook, path: Any, *more: Any) -> None:
        paths.append(str(path))
        begin(self, path, *more)

    monkeypatch.setattr(PathLook, "__init__", noted)
    return paths


COMMANDS = {
    "info": ["info", "PATH"],
    "info as JSON": ["info", "PATH", "--json", "--store"],
    "cat": ["cat", "PATH", "--limit", "1"],
    "get": ["get", "PATH", "--topic", "TOPIC", "PART", "0", "--offset", "0", "--count", "1"],
    "query": ["query", "PATH", "--topic", "TOPIC", "--key", "k"],
    "message": ["message", "PATH", "7F00000100002A9F0000000000000000"],
    "verify": ["verify", "PATH"],
    "rebuild": ["rebuild", "PATH", "-o", "OUT", "--no-sync"],
    "recover": ["recover", "PATH", "-o", "OUT", "--no-sync"],
}


@pytest.mark.parametrize("name", ["store", f"store/commitlog/{0:020d}", "logs", "logs/orders-0"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_looks_at_its_path_once(
    command: str, name: str, root: Path, tmp_path: Path, looks: list[str]
) -> None:
    of_store = name.startswith("store")
    words = {
        "PATH": str(root / name),
        "OUT": str(tmp_path / "out"),
        "TOPIC": "AaTopic" if of_store else "orders",
        "PART": "--queue" if of_store else "--partition",
    }
    told = run(*(words.get(word, word) for word in COMMANDS[command]))
    assert "unexpected" not in told.stderr
    assert looks.count(words["PATH"]) == 1
