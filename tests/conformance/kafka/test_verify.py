"""verify and recover over every golden log directory: nothing to find where a broker ended cleanly;
else what the manifest says was damaged, each in its place, and recover saves all but that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.io.env import Env
from logdex.kafka.recover import recover
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.verify import verify
from tests.directories import tree_hash
from tests.golden import kafka as golden

GoldenLog = Callable[[str], Path]

CHECK_OF_FLIP = {"batch-crc", "batch-header", "batch-offset", "stray-bytes"}


def config_of(name: str) -> LogConfig:
    return LogConfig(index_interval_bytes=golden.index_interval_bytes(name))


def is_told(check: str, position: int, harm: golden.Line) -> bool:
    """Whether a finding is what a harm of the manifest must give."""
    if harm["op"] == "flip":
        return check in CHECK_OF_FLIP and position <= harm["position"]
    if harm["op"] == "cut":
        return check == "torn-tail" and position < harm["sizeAfter"]
    if harm["op"] == "zeros":
        return check == "zero-tail" and position == harm["sizeBefore"]
    kinds = {".index": "offset-index-missing", ".timeindex": "time-index-missing"}
    return check == kinds.get(Path(harm["file"]).suffix, check)


@pytest.mark.parametrize("name", golden.NAMES)
def test_what_is_damaged_is_found_and_nothing_else(name: str, golden_log: GoldenLog) -> None:
    root, env = golden_log(name), Env()
    report = verify(str(root), config_of(name), env=env)
    assert env.counters.written_bytes == 0
    damage: dict[str, list[golden.Line]] = {}
    for harm in golden.manifest(name).get("damage") or []:
        damage.setdefault(harm["file"], []).append(harm)
    found = Counter(finding.path.removeprefix(f"{root}/") for finding in report.findings)
    assert found.keys() == damage.keys()
    assert all(number <= len(damage[path]) for path, number in found.items())
    for finding in report.findings:
        harms = damage[finding.path.removeprefix(f"{root}/")]
        # two harms of one file may lie in one batch, and are then told as a third
        assert len(harms) > 1 or is_told(finding.check, finding.position, harms[0]), finding


@pytest.mark.parametrize("name", golden.NAMES)
def test_recover_saves_every_valid_batch(name: str, golden_log: GoldenLog, tmp_path: Path) -> None:
    root, output = golden_log(name), tmp_path / "recovered"
    before = tree_hash(root)
    report = recover(str(root), str(output), config_of(name), sync=False)
    assert tree_hash(root) == before
    clean = verify(str(output), config_of(name))
    assert clean.findings == []
    valid = [line for line in golden.records(name) if line["kind"] == "batch" and line["valid"]]
    assert clean.messages >= sum(line["count"] or 0 for line in valid)
    if not golden.manifest(name).get("damage"):
        assert not report.lossy
        assert report.skipped == []
        for log in root.rglob("*.log"):
            assert (output / log.relative_to(root)).read_bytes() == log.read_bytes()


@pytest.mark.parametrize("name", [name for name in golden.NAMES if not golden.manifest(name).get("damage")])
def test_recovered_indexes_are_those_that_the_broker_recovers(name: str, golden_log: GoldenLog, tmp_path: Path) -> None:
    output = tmp_path / "recovered"
    recover(str(golden_log(name)), str(output), config_of(name), sync=False)
    told = golden.lines(name, "recovered", "index") + golden.lines(name, "recovered", "timeindex")
    assert told
    for line in told:
        suffix = ".index" if line["kind"] == "index" else ".timeindex"
        path = output / line["partition"] / f"{line['segment']:020d}{suffix}"
        slot = 8 if suffix == ".index" else 12
        assert path.stat().st_size == slot * len(line["entries"])


def test_recover_goes_on_behind_a_bad_batch(golden_log: GoldenLog, tmp_path: Path) -> None:
    root, output = golden_log("tiny-crash"), tmp_path / "recovered"
    report = recover(str(root), str(output), sync=False)
    why = {Path(each.path).parent.name: each for each in report.skipped}
    assert set(why) == {"events-0", "events-1", "events-2"}
    assert (why["events-0"].is_loss, why["events-0"].next_offset) == (True, -1)  # torn: nobody knows how much
    assert (why["events-1"].why, why["events-1"].is_loss) == ("zeros", False)
    bad = why["events-2"]
    assert (bad.start, bad.end, bad.first_offset, bad.next_offset) == (1087, 1214, 39, 40)
    before = (root / "events-2" / f"{27:020d}.log").read_bytes()
    assert (output / "events-2" / f"{27:020d}.log").read_bytes() == before[:1087] + before[1214:]
