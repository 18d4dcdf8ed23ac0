"""The checkpoints tell of offsets behind the end of the log: its last segment was cut or lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.kafka.directory.recognise import require_kafka
from logdex.kafka.recover import recover
from logdex.kafka.snapshot.overview import overview
from logdex.kafka.verify import verify
from tests.unit.kafka.verify.log_harm import CONFIG, THIRD, make_log_dir, position_of

LOST = "offset 30 of events-0, and the log ends at"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_log_dir(tmp_path)


def problems(root: Path) -> list[str]:
    """What `info` says is wrong."""
    return overview(require_kafka(root), CONFIG).problems


def remove(root: Path) -> None:
    for path in root.glob(f"{THIRD}.*"):
        path.unlink()


def empty(root: Path) -> None:
    os.truncate(root / f"{THIRD}.log", 0)


def cut(root: Path) -> None:
    os.truncate(root / f"{THIRD}.log", position_of(20, 2))


@pytest.mark.parametrize(("harm", "end"), [(remove, 20), (empty, 20), (cut, 24)])
def test_after_a_clean_shutdown_it_is_a_loss(
    harm: Callable[[Path], None], end: int, root: Path, tmp_path: Path
) -> None:
    assert problems(root) == []
    harm(root)
    report = recover(root, tmp_path / "out", CONFIG)
    assert report.lossy
    assert [f"{LOST} {end}: offsets {end} to 29 are lost" in each for each in report.losses] == [True]
    assert report.to_json()["losses"] == report.losses
    assert any(f"{LOST} {end}: the log's last segment may be" in each for each in problems(root))
    again = recover(tmp_path / "out", tmp_path / "again", CONFIG)
    assert (again.lossy, [each for each in again.notes if LOST in each]) == (False, [])


@pytest.mark.parametrize("harm", [remove, empty, cut])
def test_after_a_crash_it_is_a_note(harm: Callable[[Path], None], root: Path, tmp_path: Path) -> None:
    (root / ".kafka_cleanshutdown").unlink()
    harm(root)
    report = recover(root, tmp_path / "out", CONFIG)
    assert not report.lossy
    assert len([each for each in report.notes if LOST in each]) == 1
    assert not [each for each in problems(root) if LOST in each]


def test_what_is_lost_with_damage_is_told_once(root: Path, tmp_path: Path) -> None:
    os.truncate(root / f"{THIRD}.log", position_of(20, 2) + 10)
    report = recover(root, tmp_path / "out", CONFIG)
    assert (report.lossy, report.losses) == (True, [])
    assert [(each.first_offset, each.next_offset) for each in report.skipped] == [(24, -1)]


def test_the_mend_of_a_checkpoint_restores_the_segment_first(root: Path) -> None:
    remove(root)
    found = [each for each in verify(root, config=CONFIG).findings if each.path.endswith("-offset-checkpoint")]
    assert len(found) == 2
    assert all(each.mend.startswith("restore the log's last segment first") for each in found)
