"""Commands that read messages refuse a CommitLog file under the name of another one: its messages
would come twice, and with wrong physical offsets."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.helpers import run
from tests.unit.rocketmq.small_stores import MESSAGES, build

COUNT = "SELECT count(*) FROM messages"


@pytest.mark.parametrize("command", [["cat"], ["cat", "--json"], ["stats"], ["sql", COUNT], ["export", "--output"]])
def test_a_copy_under_another_name(command: list[str], tmp_path: Path) -> None:
    store = build(tmp_path / "store", MESSAGES)
    first, second, *_ = sorted((store / "commitlog").iterdir())
    shutil.copyfile(first, second)
    name, *options = command
    if "--output" in options:
        options.append(str(tmp_path / "out"))
    ended = run(name, store, *options)
    assert ended.exit_code == 2, ended
    assert ended.stdout == ""
    assert f"{second} holds the messages of the file {first.name}" in ended.stderr
    assert "logdex verify says how to mend that" in ended.stderr
    assert not [*tmp_path.glob("out/*")]


def test_one_file_by_itself_may_have_any_name(tmp_path: Path) -> None:
    store = build(tmp_path / "store", MESSAGES)
    first = min((store / "commitlog").iterdir())
    copy = shutil.copyfile(first, tmp_path / f"{4096:020d}")
    assert run("cat", copy, "--json").exit_code == 0
