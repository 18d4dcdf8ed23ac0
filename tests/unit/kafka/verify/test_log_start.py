"""What verify asks of a log whose start lies within a segment: nothing of the offsets below it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logdex.kafka.batch.batch_writer import encode_batch
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.recover import recover
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.verify import verify
from logdex.layout.kafka import RECORD_BATCH
from logdex.primitives.crc32c import crc32c_by_table

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig()
RECORD = Record(key=b"key", value=b"value", timestamp_ms=NOW_MS)
LOG_START, EPOCHS, MARK = "log-start-offset-checkpoint", "leader-epoch-checkpoint", ".logdex-clean"


def opened(path: Path) -> Log:
    return Log.open(str(path), CONFIG, clock_ms=lambda: NOW_MS)


def checks(path: Path) -> list[str]:
    return sorted(finding.check for finding in verify(str(path), CONFIG).findings)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Offsets 0 to 5 of two leader epochs; producers 1 (in a transaction) and 2."""
    path = tmp_path / "events-0"
    with opened(path) as log:
        log.append([RECORD, RECORD], leader_epoch=0, producer_id=1, producer_epoch=0, transactional=True)
        log.append([RECORD], leader_epoch=0, producer_id=2, producer_epoch=0)
        log.append([RECORD], leader_epoch=3, producer_id=1, producer_epoch=0, transactional=True)
        log.append_end_marker(1, 0, commit=False, timestamp_ms=NOW_MS)
        log.append([RECORD], leader_epoch=3, producer_id=2, producer_epoch=0)
    return path


def crash(path: Path) -> None:
    """What a crash leaves: no mark, no snapshot: all is derived again from the log's start on."""
    (path / MARK).unlink()
    for snapshot in path.glob("*.snapshot"):
        snapshot.unlink()


@pytest.mark.parametrize("start", range(1, 7))
def test_a_log_that_was_cut_at_its_start_is_sound(partition: Path, start: int) -> None:
    with opened(partition) as log:
        log.delete_records(start)
    assert checks(partition) == []
    crash(partition)
    with opened(partition):
        pass
    assert checks(partition) == []
    with opened(partition) as log:  # producers are unknown where nothing of them lies behind the start
        log.append([RECORD], leader_epoch=3, producer_id=2, producer_epoch=0, sequence=2 if start <= 5 else 9)
    assert checks(partition) == []


@pytest.mark.parametrize("epoch", [1, 3, 4])
@pytest.mark.parametrize("gap", [0, 2])
def test_what_lies_before_the_start_says_nothing_of_later_epochs(
    partition: Path, tmp_path: Path, epoch: int, gap: int
) -> None:
    with opened(partition) as log:
        log.delete_records(4)
        log.truncate_to(4)  # epoch 3 is forgotten, its batch at 3 still lies in the segment
        later = encode_batch([RECORD], base_offset=4 + gap, leader_epoch=epoch)
        log.append_batches(later, assign_offsets=False)
        log.append([RECORD], leader_epoch=5)
        assert log.leader_epochs == [(epoch, 4 + gap), (5, 5 + gap)]
    assert checks(partition) == []
    home = tmp_path / "home"
    shutil.copytree(partition, home / partition.name)
    (home / partition.name / LOG_START).rename(home / LOG_START)
    (home / "meta.properties").write_bytes(b"version=1\ncluster.id=abc\nnode.id=1\n")
    report = recover(str(home), str(tmp_path / "out"), sync=False)
    assert not [note for note in report.notes if "epoch" in note]
    assert checks(tmp_path / "out") == []
    log_file = partition / f"{0:020d}.log"
    data = bytearray(log_file.read_bytes())
    data[12:16] = (9).to_bytes(4, "big")  # the first batch's: harmed all the same
    log_file.write_bytes(data)
    assert checks(partition) == ["batch-leader-epoch"]


def test_from_the_first_line_on_epochs_must_be_told(partition: Path) -> None:
    with opened(partition) as log:
        log.delete_records(1)
    (partition / EPOCHS).write_text("0\n2\n0 1\n3 4\n")
    assert checks(partition) == ["leader-epoch"]
    (partition / EPOCHS).write_text("0\n1\n0 1\n")
    assert checks(partition) == ["leader-epoch"]


def test_epochs_that_begin_later_are_information(partition: Path) -> None:
    """A log start that no checkpoint has any more: as after a broker's crash, or in a copy."""
    (partition / EPOCHS).write_text("0\n1\n3 3\n")
    report = verify(str(partition), CONFIG)
    assert report.findings == []
    assert [info.kind for info in report.infos] == ["leader-epochs-later"]


def test_a_copied_partition_that_was_opened_and_closed(partition: Path, tmp_path: Path) -> None:
    """Its log directory has the log start offset, the copy has not."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "meta.properties").write_bytes(b"version=1\ncluster.id=abc\nnode.id=1\n")
    shutil.copytree(partition, home / partition.name, ignore=shutil.ignore_patterns(".l*"))
    with opened(home / partition.name) as log:
        log.delete_records(4)
    assert checks(home) == []
    copy = tmp_path / "copy" / partition.name
    shutil.copytree(home / partition.name, copy)
    assert checks(copy) == []
    with opened(copy):
        pass
    assert checks(copy) == []


def test_a_start_that_is_not_noted_yet(partition: Path) -> None:
    """A broker notes it once a minute, and cuts the epochs at once: a crash leaves them so."""
    (partition / MARK).unlink()
    (partition / EPOCHS).write_text("0\n1\n3 4\n")
    report = verify(str(partition), CONFIG)
    assert report.findings == []
    assert "leader-epochs-later" in [info.kind for info in report.infos]


def test_a_checkpoint_of_a_lone_partition_that_cannot_be_read(partition: Path) -> None:
    with opened(partition) as log:
        log.delete_records(4)
    (partition / LOG_START).write_bytes(b"what?")
    assert checks(partition) == ["checkpoint-malformed"]
    (partition / LOG_START).write_text("0\n1\nevents 0 400\n")
    assert "checkpoint-offset" in checks(partition)


def test_a_gap_in_sequences_above_the_start_is_found(partition: Path) -> None:
    with opened(partition) as log:
        log.delete_records(1)
    raw = bytearray((partition / f"{0:020d}.log").read_bytes())
    with opened(partition) as log:
        batch = log.read_batches(5)[-1]
    at = raw.rindex(batch.raw)

    place = at + RECORD_BATCH.offset_of("base_sequence")
    raw[place : place + 4] = (7).to_bytes(4, "big")
    crc = at + RECORD_BATCH.offset_of("crc")
    raw[crc : crc + 4] = crc32c_by_table(bytes(raw[crc + 4 : at + len(batch.raw)])).to_bytes(4, "big")
    (partition / f"{0:020d}.log").write_bytes(raw)
    assert "producer-sequence" in checks(partition)
