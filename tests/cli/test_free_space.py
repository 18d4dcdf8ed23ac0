"""`--no-space-check`: a command that finds too little free space begins anyway, and ends well if
there is enough after all; without the flag it writes nothing, and names the flag."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.convert.export import export
from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.sources.rocketmq import StoreSource
from logdex.io.env import Env
from tests.cli.helpers import run
from tests.cli.small_places import make_places
from tests.directories import contents
from tests.examples import cases

COMMANDS: dict[str, tuple[str, ...]] = {
    "rebuild of a store": ("rebuild", "store"),
    "rebuild of logs": ("rebuild", "logs"),
    "recover of a store": ("recover", "store"),
    "recover of logs": ("recover", "logs"),
    "export of a store": ("export", "store"),
    "export of logs": ("export", "logs"),
    "import as a store": ("import", "messages", "--format", "rocketmq"),
    "import as logs": ("import", "records", "--format", "kafka"),
    "filter of a store": ("filter", "store", "--topic", "orders"),
    "filter of logs": ("filter", "logs", "--topic", "orders"),
    "convert of a store": ("convert", "store", "--to", "kafka"),
    "convert of logs": ("convert", "logs", "--to", "rocketmq"),
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_places(tmp_path_factory.mktemp("places"))
    export(StoreSource(str(root / "store")), str(root / "messages"), sync=False)
    export(LogDirSource(str(root / "logs")), str(root / "records"), sync=False)
    return root


@pytest.mark.parametrize("case", cases(COMMANDS, 3))
def test_a_command_begins_in_spite_of_too_little_space(
    case: str, places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Env, "free_bytes", lambda *_: 10)
    command, source, *more = COMMANDS[case]
    asked = (command, places / source, *more, "--output", tmp_path / "out", "--no-sync")
    refused = run(*asked)
    assert refused.exit_code not in (0, 3), refused
    assert "but only 10 are free" in refused.stderr
    assert "give --no-space-check" in refused.stderr
    assert not (tmp_path / "out").exists() or contents(tmp_path / "out") == {}
    done = run(*asked, "--no-space-check")
    assert done.exit_code == 0, done
    assert contents(tmp_path / "out") != {}
