"""Reports of recover and rebuild name files as the caller named them."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.rebuild import rebuild
from logdex.kafka.recover import recover

LOG = f"{0:020d}.log"


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a damaged log."""
    with Log.open(str(tmp_path / "logs" / "events-0")) as log:
        log.append(Record(value=b"x" * 100))
        log.append(Record(value=b"y" * 100))
    path = tmp_path / "logs" / "events-0" / LOG
    raw = bytearray(path.read_bytes())
    raw[100] ^= 1
    path.write_bytes(raw)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "log"),
    [
        ("logs", f"logs/events-0/{LOG}"),
        ("logs/events-0", f"logs/events-0/{LOG}"),
        (f"logs/events-0/{LOG}", f"logs/events-0/{LOG}"),
    ],
)
def test_relative_paths_stay_relative(logs: Path, path: str, log: str) -> None:
    recovered = recover(path, "recovered")
    assert [each.path for each in recovered.skipped] == [log]
    rebuilt = rebuild(path, "rebuilt")
    assert [loss.split(": ")[0] for loss in rebuilt.losses] == [log]
    assert str(logs) not in str((recovered, rebuilt))


def test_from_within(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(logs / "logs" / "events-0")
    assert [each.path for each in recover(".", "../../recovered").skipped] == [f"./{LOG}"]
    assert [each.path for each in recover(LOG, "../../other").skipped] == [f"./{LOG}"]


def test_what_is_kept_in_place(logs: Path) -> None:
    assert {
        where.rsplit("/", 1)[0] for where in rebuild("logs/events-0", "logs/events-0", in_place=True).kept.values()
    } == {"logs/events-0"}
    assert {where.rsplit("/", 1)[0] for where in recover("logs", "logs", in_place=True).kept.values()} == {
        "logs/events-0"
    }


def test_absolute_paths_stay_absolute(logs: Path) -> None:
    assert [each.path for each in recover(str(logs / "logs"), "recovered").skipped] == [
        str(logs / "logs" / "events-0" / LOG)
    ]
