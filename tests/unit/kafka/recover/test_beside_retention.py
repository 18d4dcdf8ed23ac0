"""A broker keeps removing the oldest segments of a partition that is recovered: the new log begins
behind them, and has everything that is still there."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from logdex.jobs import look_again
from logdex.jobs.look_again import Looks
from logdex.kafka.recover import recover
from logdex.kafka.recover.report import RecoverReport
from logdex.kafka.verify import verify
from tests.beside import Retention
from tests.examples import cases, some
from tests.unit.kafka.verify.log_harm import CONFIG, PARTITION, batches, flip, position_of

BASES = range(0, 120, 10)
SEGMENTS_LEFT = 2
DAMAGED = (20, 60, 100)
"""The base offsets of the segments whose last batch is damaged."""


class OneLook(Looks):
    """A recovery that is given up when files went away, however often a listing is repeated."""

    def fails(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removed segments alone are no reason to begin again."""
    monkeypatch.setattr("logdex.kafka.recover.job.Looks", OneLook)
    monkeypatch.setattr(look_again, "PAUSE_S", 0)


@pytest.fixture(scope="module", params=[(), DAMAGED], ids=["whole", "damaged"])
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A log directory, and the whole batches of each of its logs."""
    raw = tmp_path_factory.mktemp("retention") / "logs"
    (raw / PARTITION).mkdir(parents=True)
    whole = {}
    for base in BASES:
        path = raw / PARTITION / f"{base:020d}.log"
        path.write_bytes(b"".join(batches(base)))
        kept = batches(base)
        if base in request.param:
            flip(path, position_of(base, 5) + 64)
            kept = kept[:5]
        whole[path.name] = b"".join(kept)
    return raw, whole


def logs_of(log_dir: Path) -> list[Path]:
    return sorted((log_dir / PARTITION).glob("*.log"))


def remove_oldest(log_dir: Path) -> None:
    for path in logs_of(log_dir)[:-SEGMENTS_LEFT][:1]:
        path.rename(path.with_name(f"{path.name}.deleted"))


def require_rest(log_dir: Path, output: Path, whole: dict[str, bytes], report: RecoverReport) -> None:
    """Requires that `output` has all batches that `log_dir` still has, and that nothing is told of
    others."""
    written = {path.name: path.read_bytes() for path in logs_of(output)}
    first = min(written)
    assert written == {name: data for name, data in whole.items() if name >= first}
    assert first <= logs_of(log_dir)[0].name
    lost = [base for base in DAMAGED if (name := f"{base:020d}.log") >= first and whole[name] != data_of(base)]
    assert [each.first_offset for each in report.skipped] == [base + 9 for base in lost]
    assert verify(output, config=CONFIG).findings == []


def data_of(base: int) -> bytes:
    return b"".join(batches(base))


@pytest.mark.parametrize("step", cases([1, 3, 8, 20, 60], 3, first=1))
def test_the_oldest_segments_go_one_by_one(step: int, stored: tuple[Path, dict[str, bytes]], tmp_path: Path) -> None:
    log_dir, whole = stored
    still = Retention(0, step, lambda: None)
    recover(log_dir, tmp_path / "still", CONFIG, sync=False, env=still)
    noted = 0
    for first in some(range(1, still.count + 1, 7), 9):
        root = Path(shutil.copytree(log_dir, tmp_path / f"logs-{first}"))
        env = Retention(first, step, partial(remove_oldest, root))
        report = recover(root, tmp_path / f"out-{first}", CONFIG, sync=False, env=env)
        require_rest(root, tmp_path / f"out-{first}", whole, report)
        noted += any("removed by the broker meanwhile" in note for note in report.notes)
        shutil.rmtree(root)
        shutil.rmtree(tmp_path / f"out-{first}")
    assert noted
