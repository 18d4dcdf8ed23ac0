"""Key indexes beside the segments of a `Log`: they stay while their segment does, and go with
it."""

from __future__ import annotations

from pathlib import Path

from logdex.kafka.batch.record import Record
from logdex.kafka.key_index.build import build_key_index
from logdex.kafka.log.load_report import LoadStep
from logdex.kafka.log.log import Log


def make(path: Path) -> list[int]:
    """Three segments, each with a key index; their base offsets."""
    with Log.open(str(path)) as log:
        for place in range(3):
            log.append([Record(b"key", b"value %d" % place)])
            if place < 2:
                log.roll()
        bases = [segment.base_offset for segment in log.segments]
    for base in bases:
        index = build_key_index(str(path / f"{base:020d}.log"))
        (path / f"{base:020d}.keyindex").write_bytes(bytes(index))
    return bases


def key_indexes(path: Path) -> list[int]:
    return sorted(int(each.name[:20]) for each in path.glob("*.keyindex"))


def test_one_goes_with_its_segment(tmp_path: Path) -> None:
    bases = make(tmp_path / "events-0")
    with Log.open(str(tmp_path / "events-0")) as log:
        assert log.load_report.actions == []
        assert key_indexes(tmp_path / "events-0") == bases
        log.delete_records(bases[1])
        assert key_indexes(tmp_path / "events-0") == bases[1:]


def test_one_that_a_broker_left_behind_goes_when_the_log_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "events-0"
    bases = make(path)
    for file in path.glob(f"{0:020d}.*"):
        if file.suffix != ".keyindex":
            file.unlink()
    with Log.open(str(path)) as log:
        assert [(each.step, each.path[-29:]) for each in log.load_report.actions] == [
            (LoadStep.REMOVED, f"{0:020d}.keyindex")
        ]
        assert log.log_start_offset == bases[1]
    assert key_indexes(path) == bases[1:]


def test_one_goes_when_its_segment_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "events-0"
    bases = make(path)
    with Log.open(str(path)) as log:
        log.append([Record(b"key", b"behind the index")])
        log.truncate_to(3)
        assert key_indexes(path) == bases[:2]
        log.append([Record(b"key", b"value 2")])
        log.roll()
        (path / f"{bases[2]:020d}.keyindex").write_bytes(bytes(build_key_index(str(path / f"{bases[2]:020d}.log"))))
        log.truncate_to(bases[1] + 1)  # where the third segment begins
        assert key_indexes(path) == bases[:2]
        log.truncate_to(bases[1])
        assert key_indexes(path) == bases[:1]
        log.truncate_to(0)
        assert key_indexes(path) == []


def test_one_goes_when_a_crash_left_its_segment_torn(tmp_path: Path) -> None:
    path = tmp_path / "events-0"
    bases = make(path)
    with (path / f"{bases[2]:020d}.log").open("ab") as file:
        file.write(b"torn")
    with Log.open(str(path)) as log:
        assert [each.step for each in log.load_report.actions] == [LoadStep.CUT]
        assert key_indexes(path) == bases[:2]
