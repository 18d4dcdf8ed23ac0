"""Files of segments that have been given other names: verify says how to name them, and recover
reads them."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdex.kafka.rebuild import rebuild
from logdex.kafka.recover import recover
from tests.directories import contents
from tests.unit.kafka.verify.log_harm import (
    CONFIG,
    FIRST,
    PARTITION,
    SECOND,
    SEGMENTS,
    flip,
    make_log_dir,
    position_of,
    run,
)

INDEXES = (".index", ".timeindex", ".txnindex")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_log_dir(tmp_path_factory.mktemp("sound"))


def carry_out(root: Path) -> list[str]:
    """Carries out the mends of all findings, which must be moves. Returns the new names."""
    names = []
    for finding in run(root).findings:
        assert finding.check == "file-name", str(finding)
        move, source, target = shlex.split(finding.mend)
        assert move == "mv"
        assert not Path(target).exists()
        names.append(Path(shutil.move(source, target)).name)
    return names


@given(
    segment=st.sampled_from(SEGMENTS),
    number=st.one_of(st.none(), st.integers(0, 40), st.integers(0, (1 << 63) - 1)),
    digits=st.integers(1, 22),
    words=st.sampled_from(("", "copy of ", "old.")),
    with_indexes=st.booleans(),
)
def test_any_name_of_a_log_is_mended(
    sound: Path,
    tmp_path_factory: pytest.TempPathFactory,
    segment: int,
    number: int | None,
    digits: int,
    words: str,
    with_indexes: bool,
) -> None:
    """A name that a broker would read as another segment's is not taken for wrong if the first
    batch may stand behind it, and the indexes have that name too."""
    root = tmp_path_factory.mktemp("named") / "the logs"
    shutil.copytree(sound, root)
    stem = f"{words}{segment if number is None else number:0{digits}d}"
    renamed = [".log", *(INDEXES if with_indexes else ())]
    if any((root / PARTITION / f"{stem}{suffix}").exists() for suffix in renamed):
        return
    for suffix in renamed:
        (root / PARTITION / f"{segment:020d}{suffix}").rename(root / PARTITION / f"{stem}{suffix}")
    report = recover(str(root), str(root.parent / "saved"), CONFIG)
    assert (report.messages, report.lossy) == (30, False)
    assert report.messages == 30
    assert logs_bytes(root.parent / "saved") == logs_bytes(sound)
    if not with_indexes:
        assert carry_out(root) == [f"{segment:020d}.log"]
        assert contents(root) == contents(sound)
    shutil.rmtree(root.parent)


def logs_bytes(root: Path) -> bytes:
    """The bytes of all logs."""
    return b"".join(path.read_bytes() for path in sorted((root / PARTITION).glob("*.log")))


def rename(root: Path, old: str, new: str) -> None:
    """Renames a log and its indexes."""
    for suffix in (".log", *INDEXES):
        (root / f"{old}{suffix}").rename(root / PARTITION / f"{new}{suffix}")


@pytest.mark.parametrize("new", ["10", "0010", f"{11:020d}", f"{13:020d}"])
def test_indexes_are_moved_with_their_log(sound: Path, tmp_path: Path, new: str) -> None:
    root = Path(shutil.copytree(sound, tmp_path / "logs"))
    rename(root, SECOND, new)
    assert sorted(carry_out(root)) == sorted(f"{10:020d}{suffix}" for suffix in (".log", *INDEXES))
    assert contents(root) == contents(sound)


def test_a_copy_beside_its_log_is_moved_away_and_not_lost(sound: Path, tmp_path: Path) -> None:
    """What is damaged in the log itself is taken from the copy."""
    root = Path(shutil.copytree(sound, tmp_path / "logs"))
    shutil.copy(root / f"{FIRST}.log", root / PARTITION / "copy.log")
    (finding,) = run(root).findings
    assert (finding.check, finding.mend) == ("file-name", "move the file out of the directory")
    flip(root / f"{FIRST}.log", position_of(0, 1) + 70)
    report = recover(str(root), str(tmp_path / "saved"), CONFIG)
    assert report.messages == 30
    assert logs_bytes(tmp_path / "saved") == logs_bytes(sound)


def test_a_rebuild_tells_of_a_log_that_it_does_not_read(sound: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(sound, tmp_path / "logs"))
    (root / f"{SECOND}.log").rename(root / PARTITION / "10.log")
    told, lost = rebuild(root, tmp_path / "out").losses
    assert told.startswith(f"{root / PARTITION / '10.log'} is not read")
    assert f"{SECOND}.log" in lost


def test_a_batch_with_a_damaged_offset_does_not_move_its_file(sound: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(sound, tmp_path / "logs"))
    flip(root / f"{SECOND}.log", 7, bit=3)  # offset 10 becomes 2
    assert [each.check for each in run(root).findings if each.path.endswith(".log")] == ["segment-base-offset"]


def test_one_segment_by_its_wrong_name(sound: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(sound, tmp_path / "logs"))
    path = (root / f"{SECOND}.log").rename(root / PARTITION / f"{11:020d}.log")
    report = run(path)
    assert [(each.check, each.path) for each in report.findings] == [("file-name", str(path))]
    assert report.messages == 10
