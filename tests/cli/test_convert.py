"""`logdex convert` and `logdex export`: what they refuse, and the exit code where something is
lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.kafka import Log, Record
from logdex.testing.store_builder import write_commit_log
from tests.cli.helpers import run, run_json
from tests.unit.rocketmq.small_stores import FILE_SIZE, message

FLAGS = ("--mapped-file-size-commit-log", FILE_SIZE, "--rocketmq-version", "5.5.0")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    messages = [message(0), message(0, topic=b"SCHEDULE_TOPIC_XXXX")]
    write_commit_log(str(tmp_path / "store"), messages, FILE_SIZE)
    return tmp_path / "store"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--to", "rocketmq", "--output", "out"), "is a RocketMQ store already"),
        (("--to", "kafka"), "where to?"),
        (("--to", "kafka", "--output", "out", "--partition", "1"), "--partition is a flag of Kafka's"),
        (("--to", "pulsar", "--output", "out"), "pulsar"),
    ],
)
def test_refused_conversions(store: Path, more: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(store.parent)
    ended = run("convert", "store", *more)
    assert ended.exit_code == 2
    assert said in ended.stderr
    assert not (store.parent / "out").exists()


def test_what_is_left_out_has_a_line(store: Path, tmp_path: Path) -> None:
    arguments = ("convert", store, "--to", "kafka", "--output", tmp_path / "logs", *FLAGS)
    (report,) = run_json(*arguments, exit_code=3)
    assert (report["messages"], report["lossy"]) == (1, True)
    assert "1 message of SCHEDULE_TOPIC_XXXX" in report["losses"][0]


def test_an_open_transaction_is_converted_if_asked_for(tmp_path: Path) -> None:
    with Log.open(tmp_path / "logs" / "t-0") as log:
        log.append([Record(b"open", b"v")], producer_id=3, producer_epoch=0, transactional=True)
    arguments = ("convert", tmp_path / "logs", "--to", "rocketmq", "--output")
    (report,) = run_json(*arguments, tmp_path / "one", exit_code=3)
    assert (report["messages"], "--isolation-level read_uncommitted" in report["losses"][0]) == (0, True)
    (report,) = run_json(*arguments, tmp_path / "two", "--isolation-level", "read_uncommitted")
    assert (report["messages"], report["losses"]) == (1, [])


def test_refused_exports(store: Path, tmp_path: Path) -> None:
    assert "where to?" in run("export", store).stderr
    ended = run("export", store, "--output", tmp_path / "lake", "--isolation-level", "read_committed")
    assert (ended.exit_code, "--isolation-level is a flag of Kafka's" in ended.stderr) == (2, True)
