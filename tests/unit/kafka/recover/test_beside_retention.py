"""A broker keeps removing the oldest segments of a partition that is recovered: the new log begins
behind them, and has everything that is still there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from logdex.io.env import Env
from logdex.jobs import look_again
from logdex.jobs.look_again import Looks
from logdex.kafka.recover import recover
from logdex.kafka.recover.report import RecoverReport
from logdex.kafka.verify import verify
from tests.beside import Retention, retentions
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
    for root, output, env in retentions(log_dir, tmp_path, step, still.count, remove_oldest):
        report = recover(root, output, CONFIG, sync=False, env=env)
        require_rest(root, output, whole, report)
        noted += any("removed by the broker meanwhile" in note for note in report.notes)
    assert noted


def repeat_the_next(partition: Path) -> None:
    """The first segment repeats the first batch of the next one."""
    with (partition / f"{0:020d}.log").open("ab") as file:
        file.write(batches(10)[0])


def harm_what_is_repeated(partition: Path) -> None:
    """The first segment repeats batches of the next one, where they are damaged."""
    with (partition / f"{0:020d}.log").open("ab") as file:
        file.write(b"".join(batches(10)[:2]))
    for number in range(2):
        flip(partition / f"{10:020d}.log", position_of(10, number) + 64)


def harm_both_sides(partition: Path) -> None:
    """The end of the first segment and the beginning of the next one are damaged."""
    flip(partition / f"{0:020d}.log", position_of(0, 5) + 64)
    flip(partition / f"{10:020d}.log", 64)


def rename_the_second(partition: Path) -> None:
    (partition / f"{10:020d}.log").rename(partition / "kept.log")


def remove(*bases: int) -> Callable[[Path], None]:
    def act(log_dir: Path) -> None:
        for base in bases:
            (log_dir / PARTITION / f"{base:020d}.log").unlink(missing_ok=True)

    return act


def rename_the_first(log_dir: Path) -> None:
    if (path := log_dir / PARTITION / f"{0:020d}.log").exists():
        path.rename(path.with_name("first.log"))


def found_in(log_dir: Path, output: Path, env: Env) -> tuple[object, RecoverReport]:
    """What a recovery writes and tells, but for how many bytes it was."""
    report = recover(log_dir, output, CONFIG, sync=False, env=env)
    told = [(Path(each.path).name, each.first_offset, each.next_offset, each.is_loss) for each in report.skipped]
    written = {path.name: path.read_bytes() for path in (output / PARTITION).rglob("*.log")}
    return (written, told, report.lossy), report


@pytest.mark.parametrize(
    ("harm", "act"),
    [
        (repeat_the_next, remove(0)),
        (harm_what_is_repeated, remove(0)),
        (harm_both_sides, remove(0)),
        (rename_the_second, remove(0, 20)),
        (rename_the_second, rename_the_first),
    ],
)
def test_what_is_told_is_of_the_whole_log_or_of_the_rest(
    harm: Callable[[Path], None], act: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logdex.kafka.recover.job.Looks", Looks)

    def stored(name: str) -> Path:
        partition = tmp_path / name / PARTITION
        partition.mkdir(parents=True)
        for base in range(0, 50, 10):
            (partition / f"{base:020d}.log").write_bytes(b"".join(batches(base)))
        harm(partition)
        return partition.parent

    whole, still = stored("whole"), Retention(0, 1, lambda: None)
    before, _ = found_in(whole, tmp_path / "whole-out", still)
    act(whole)
    after, _ = found_in(whole, tmp_path / "rest-out", Env())
    met = set()
    for first in some(range(1, still.count + 1), 6):
        root = stored(f"logs-{first}")
        found, report = found_in(root, tmp_path / f"out-{first}", Retention(first, still.count, partial(act, root)))
        assert found in (before, after)
        met.add(found == after)
        assert found != before or not any("removed by the broker" in note for note in report.notes)
        assert len(set(report.notes)) == len(report.notes)
    assert met == {True, before == after}
