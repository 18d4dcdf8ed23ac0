"""A batch whose base offset is damaged, which no checksum covers: every command leaves it out, says
so, and ends with the exit code of damage."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logdex.errors import LogdexError, OffsetOrderError
from logdex.kafka.columns import record_decoder
from logdex.kafka.columns.read_order import OffsetRange
from logdex.kafka.columns.record_columns import read_record_batches
from tests.cli.helpers import run
from tests.unit.kafka.verify.log_harm import FIRST, make_log_dir


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_log_dir(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def flipped(logs: Path, tmp_path: Path) -> Path:
    """Offset 0 has become 64."""
    root = Path(shutil.copytree(logs, tmp_path / "logs"))
    raw = bytearray((root / f"{FIRST}.log").read_bytes())
    raw[7] = 64
    (root / f"{FIRST}.log").write_bytes(raw)
    return root


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("verify LOGS", 1),
        ("cat LOGS", 1),
        ("cat LOGS --limit 3", 1),
        ("get LOGS --offset 0 --count 1", 1),
        ("rebuild LOGS --output OUT", 3),
        ("rebuild LOGS --output OUT --key-index", 3),
        ("recover LOGS --output OUT", 3),
        ("dispatch LOGS --output OUT", 3),
    ],
)
def test_every_command_tells_of_it(command: str, code: int, flipped: Path, tmp_path: Path) -> None:
    words = {"LOGS": str(flipped), "OUT": str(tmp_path / "out")}
    done = run(*(words.get(word, word) for word in command.split()))
    assert done.exit_code == code, done
    told = "0 to 1 are lost" if command.startswith("recover") else "contradicts its neighbours'"
    assert told in done.stdout + done.stderr


def test_who_takes_only_the_first_rows_is_told_of_what_lies_before_them(
    flipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_decoder, "is_plain_quicker", lambda: True)  # a few rows are given at once
    problems: list[LogdexError] = []
    rows = read_record_batches(
        str(flipped / f"{FIRST}.log"), offsets=OffsetRange(0, None), on_bad_batch=problems.append
    )
    assert next(rows).column("offset")[0].as_py() == 2
    assert [type(each) for each in problems] == [OffsetOrderError]
