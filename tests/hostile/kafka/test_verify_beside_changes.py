"""`verify` of a log directory in which something is cut, removed or created again between two of
its operations: a healthy directory has no findings."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.files.checkpoints import TopicPartition, write_offset_checkpoint
from logdex.kafka.log.log import Log
from logdex.kafka.verify import verify
from tests.beside import At
from tests.examples import some
from tests.hostile.kafka.cut_readers import START_MS, make

CUT = 285


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = make(tmp_path_factory.mktemp("changed") / "logs")
    (home / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    return home


def opened(home: Path) -> Log:
    return Log.open(str(home / "events-0"), clock_ms=lambda: START_MS, retention_ms=-1)


def cut(home: Path) -> None:
    with opened(home) as log:
        log.truncate_to(CUT)


def cut_and_grow(home: Path) -> None:
    with opened(home) as log:
        end = log.log_end_offset
        log.truncate_to(CUT)
        while log.log_end_offset < end + 20:
            log.append([Record(b"k", b"later")])
            log.roll()


def begin_anew(home: Path) -> None:
    with opened(home) as log:
        log.truncate_fully_and_start_at(1000)


def compact(home: Path) -> None:
    with Log.open(str(home / "events-0"), clock_ms=lambda: START_MS, cleanup_policy=("compact",)) as log:
        log.compact()


def delete_topic(home: Path) -> None:
    (home / "events-0").rename(home / f"events-0.{7:032x}-delete")


def create_again(home: Path) -> None:
    delete_topic(home)
    with opened(home) as log:
        log.append([Record(b"k", b"of the new topic")])


@pytest.mark.parametrize("change", [cut, cut_and_grow, begin_anew, compact, delete_topic, create_again])
def test_a_healthy_directory_has_no_findings(change: Callable[[Path], None], made: Path, tmp_path: Path) -> None:
    still = At(0, lambda: None)
    assert verify(made, env=still).findings == []
    for number in some(range(1, -still.left + 1), 15):
        home = Path(shutil.copytree(made, tmp_path / str(number)))
        report = verify(home, env=At(number, partial(change, home)))
        assert [str(finding) for finding in report.findings] == [], number
        shutil.rmtree(home)


def test_a_checkpoint_that_stays_behind_the_end_is_a_finding(made: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(made, tmp_path / "logs"))
    marks = str(home / "replication-offset-checkpoint")
    write_offset_checkpoint(marks, {TopicPartition("events", 0): CUT + 1})
    for env in (At(60, partial(cut, home)), At(0, lambda: None)):
        [finding] = verify(home, env=env).findings
        assert (finding.check, finding.path, finding.found) == ("checkpoint-offset", marks, str(CUT + 1))
