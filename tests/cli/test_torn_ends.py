"""Commands that count or copy a log tell of what a crash left unfinished at its end. It is no
loss: it never was a whole message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import logdex
from tests.cli.helpers import run

COMMANDS = {
    "stats": ["stats"],
    "export": ["export", "--output", "OUT", "--no-sync"],
    "convert": ["convert", "--to", "TO", "--output", "OUT", "--no-sync"],
    "filter": ["filter", "--output", "OUT", "--no-sync"],
    "filter all": ["filter", "--output", "OUT", "--no-sync", "--isolation-level", "read_uncommitted"],
}


def torn_store(path: Path) -> tuple[Path, str]:
    with logdex.open_store(path) as store:
        *_, last = (offset for offset, _ in store.scan().items())
        file = store.commit_log.files[-1]
        end = store.valid_end_offset
    data = bytearray(Path(file.path).read_bytes())
    data[last + 60 - file.start_offset : end - file.start_offset] = bytes(end - last - 60)
    Path(file.path).write_bytes(data)
    return path, f"the log ends at offset {last} (torn): "


def torn_logs(path: Path) -> tuple[Path, str]:
    log = max((path / "audit.log-0").glob("*.log"))
    log.write_bytes(log.read_bytes()[:-5])
    return path, f"{log} ends at byte "


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(("make", "to"), [(torn_store, "kafka"), (torn_logs, "rocketmq")])
def test_the_unfinished_end_is_told(
    name: str, make: Callable[[Path], tuple[Path, str]], to: str, golden_copy: Any, golden_log_copy: Any, tmp_path: Path
) -> None:
    path, told = make(golden_copy("tiny-5.5.0") if make is torn_store else golden_log_copy("tiny-broker"))
    if name == "filter all" and to == "kafka":
        pytest.skip("a store has no isolation level")
    words = [{"OUT": str(tmp_path / "out"), "TO": to}.get(word, word) for word in COMMANDS[name]]
    done = run(words[0], path, *words[1:])
    losses = [line for line in done.stderr.splitlines() if line.startswith(("logdex: lost", "logdex: not "))]
    assert done.exit_code == (3 if losses else 0), done
    assert not any(told in line for line in losses)
    if name == "filter":  # a torn end may have been that of a transaction, and convert cannot carry all
        assert all("a transaction is open" in line for line in losses)
    assert done.stderr.count(told) == 1
