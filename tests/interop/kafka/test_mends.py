"""What `verify` prints to mend a finding is carried out, for every harm; then the broker's own
classes load the directory, as after a clean end and as after a crash, and serve every record of
it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.kafka.test_mends import CASES, UNREADABLE, mended, mended_unreadable
from tests.interop.kafka.peer import VERSIONS, needs_peers, read_log
from tests.interop.kafka.test_recover import our_records, told_record
from tests.mending import Mending
from tests.unit.kafka.verify.log_harm import CONFIG, PARTITION, make_log_dir

pytestmark = [pytest.mark.needs_java, needs_peers, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = make_log_dir(tmp_path_factory.mktemp("sound"))
    (home / PARTITION / "partition.metadata").write_text("version: 0\ntopic_id: RvsNJOzdTx2Ib4WpMjcLuA")
    return home  # a broker refuses the id that is all zeros


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CASES)
def test_the_broker_serves_what_was_mended(name: str, version: str, sound: Path, tmp_path: Path) -> None:
    mending, _ = mended(name, sound, tmp_path)
    check_served(mending, version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("suffix", UNREADABLE)
def test_the_broker_serves_what_the_disk_could_read(suffix: str, version: str, sound: Path, tmp_path: Path) -> None:
    check_served(mended_unreadable(suffix, sound, tmp_path), version)


def check_served(mending: Mending, version: str) -> None:
    """The broker's classes load the directory with and without the mark of a clean end, and read
    all records."""
    for path in list(mending.root.glob("*/lost+found")):
        shutil.rmtree(path)  # the program digests every name of a partition, and knows no folders
    expected = sorted(our_records(mending.root), key=lambda record: record[:2])
    for load in ("marker", "unclean"):
        options = ("--mode", "log", "--load", load, "--config", f"index.interval.bytes={CONFIG.index_interval_bytes}")
        lines = read_log(mending.root, version, *options)
        assert not [line for line in lines.get("log", []) if "failed" in line]
        assert "stop" not in lines
        assert sorted(map(told_record, lines["record"]), key=lambda record: record[:2]) == expected
