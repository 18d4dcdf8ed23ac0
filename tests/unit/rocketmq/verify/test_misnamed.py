"""CommitLog files that somebody renamed: one finding each, and recover reads their messages."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest

from logdex.errors import UsageError
from logdex.layout.rocketmq import MESSAGE_HEAD
from logdex.rocketmq.rebuild import rebuild, rebuild_on
from logdex.rocketmq.recover import recover
from logdex.rocketmq.verify import verify
from tests.crash.trees import tree
from tests.unit.rocketmq.rebuild.test_job import Serial
from tests.unit.rocketmq.small_stores import CONFIG, FILE_SIZE, MESSAGES, build

PLACES = pytest.mark.parametrize("place", [0, 1, -1], ids=["first", "second", "last"])
NAMES = pytest.mark.parametrize("wrong", [1, 50 * FILE_SIZE, 4096 * FILE_SIZE])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build(tmp_path / "store", MESSAGES)


def rename(root: Path, place: int, wrong: int) -> tuple[Path, Path]:
    """Returns the right and the wrong name of a file, which then has the wrong one."""
    right = sorted((root / "commitlog").iterdir())[place]
    return right, right.rename(right.with_name(f"{wrong:020d}"))


@PLACES
@NAMES
def test_a_wrong_name_is_one_finding_whose_mend_mends(root: Path, place: int, wrong: int) -> None:
    before = tree(root)
    right, renamed = rename(root, place, wrong)
    [finding] = verify(root, CONFIG).findings
    assert (finding.check, finding.path, finding.expected) == ("commit-log-name", str(renamed), right.name)
    subprocess.run(finding.mend, shell=True, check=True)
    assert verify(root, CONFIG).findings == []
    assert tree(root) == before


def test_every_wrong_name_is_found(root: Path) -> None:
    files = sorted((root / "commitlog").iterdir())
    for file in reversed(files):
        file.rename(file.with_name(f"{int(file.name) + FILE_SIZE // 2:020d}"))
    findings = verify(root, CONFIG).findings
    assert [each.expected for each in findings] == [file.name for file in files]
    for finding in findings:
        subprocess.run(finding.mend, shell=True, check=True)
    assert verify(root, CONFIG).findings == []


def test_a_copy_under_another_name_is_to_be_moved_away(root: Path) -> None:
    first = sorted((root / "commitlog").iterdir())[0]
    copy = first.with_name(f"{50 * FILE_SIZE:020d}")
    copy.write_bytes(first.read_bytes())
    [finding] = verify(root, CONFIG).findings
    assert (finding.check, finding.path) == ("commit-log-name", str(copy))
    assert finding.mend.startswith("look at what it is")


@pytest.mark.parametrize("others", [1, 2, -1])
def test_files_with_each_others_names_are_exchanged(root: Path, tmp_path: Path, others: int) -> None:
    before = tree(root)
    whole = recover(root, tmp_path / "whole", CONFIG, sync=False)
    files = sorted((root / "commitlog").iterdir())
    exchange(files[0], files[others])
    findings = verify(root, CONFIG).findings
    assert [(each.check, each.path) for each in findings] == [
        ("commit-log-name", str(files[0])), ("commit-log-name", str(files[others]))
    ]  # fmt: skip
    report = recover(root, tmp_path / "out", CONFIG, sync=False)
    assert (report.messages, report.skipped) == (whole.messages, [])
    subprocess.run(findings[0].mend, shell=True, check=True)
    assert findings[1].mend.startswith("nothing by itself")
    assert verify(root, CONFIG).findings == []
    assert tree(root) == before


def exchange(one: Path, other: Path) -> None:
    aside = one.rename(one.parent / "x")
    other.rename(one)
    aside.rename(other)


def test_three_files_with_each_others_names_are_recovered(root: Path, tmp_path: Path) -> None:
    files = sorted((root / "commitlog").iterdir())
    exchange(files[0], files[1])
    exchange(files[1], files[2])
    findings = verify(root, CONFIG).findings
    assert {each.check for each in findings} == {"commit-log-name"}
    assert all(each.mend.startswith(f"logdex recover {root} --output DIR") for each in findings)
    assert recover(root, tmp_path / "out", CONFIG, sync=False).skipped == []


@pytest.mark.parametrize("name", ["2048", "00000000000000002048.1", "0000000000000002048", "9" * 20, "a b"])
def test_a_file_whose_name_is_no_offset_is_read_where_its_messages_lie(root: Path, tmp_path: Path, name: str) -> None:
    before = tree(root)
    whole = recover(root, tmp_path / "whole", CONFIG, sync=False)
    right = root / "commitlog" / f"{FILE_SIZE:020d}"
    right.rename(right.with_name(name))
    [finding] = verify(root, CONFIG).findings
    assert (finding.check, finding.expected, finding.found) == ("commit-log-name", right.name, name)
    report = recover(root, tmp_path / "out", CONFIG, sync=False)
    assert (report.messages, report.skipped) == (whole.messages, [])
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")
    subprocess.run(finding.mend, shell=True, check=True)
    assert verify(root, CONFIG).findings == []
    assert tree(root) == before


@pytest.mark.parametrize("name", [".DS_Store", f"{FILE_SIZE:020d}.bak", f"{FILE_SIZE:020d} (copy)", f"{FILE_SIZE}"])
@pytest.mark.parametrize("is_copy", [False, True])
def test_other_files_are_to_be_moved_away(root: Path, tmp_path: Path, name: str, is_copy: bool) -> None:
    source = root / "commitlog" / f"{FILE_SIZE:020d}"
    other = source.with_name(name)
    other.write_bytes(source.read_bytes() if is_copy else bytes(6148))
    [finding] = verify(root, CONFIG).findings
    assert (finding.check, finding.path) == ("commit-log-other-file", str(other))
    assert finding.mend == "move the file out of the directory"
    report = recover(root, tmp_path / "out", CONFIG, sync=False)
    assert report.skipped == []
    assert f"{other} is no file of the log: not taken over" in report.notes


def test_what_a_broker_passes_over_is_no_finding(root: Path) -> None:
    (root / "commitlog" / ".snapshot").mkdir()
    (root / "commitlog" / "last").touch()
    assert verify(root, CONFIG).findings == []


@pytest.mark.parametrize("in_tasks", [False, True])
def test_a_rebuild_refuses_a_wrong_name(root: Path, tmp_path: Path, in_tasks: bool) -> None:
    first = sorted((root / "commitlog").iterdir())[0]
    copy = first.with_name(f"{50 * FILE_SIZE:020d}")
    copy.write_bytes(first.read_bytes())
    run = partial(rebuild_on, Serial()) if in_tasks else rebuild
    with pytest.raises(UsageError, match=f"{copy.name} holds the messages of the file {first.name}"):
        run(str(root), str(tmp_path / "out"), CONFIG, sync=False)
    assert not (tmp_path / "out").exists()


def test_one_message_that_says_it_lies_elsewhere_is_no_wrong_name(root: Path) -> None:
    first = sorted((root / "commitlog").iterdir())[0]
    data = bytearray(first.read_bytes())
    data[MESSAGE_HEAD.offset_of("physical_offset") + 7] ^= 1
    first.write_bytes(data)
    checks = [each.check for each in verify(root, CONFIG).findings]
    assert checks == ["message-physical-offset", "consume-queue-extra-entry"]


@PLACES
@NAMES
def test_recover_reads_a_file_where_its_messages_lie(root: Path, tmp_path: Path, place: int, wrong: int) -> None:
    whole = recover(root, tmp_path / "whole", CONFIG, sync=False)
    right, renamed = rename(root, place, wrong)
    report = recover(root, tmp_path / "out", CONFIG, sync=False)
    assert (report.messages, report.placeholders, report.skipped) == (whole.messages, 0, [])
    assert f"{renamed} is read as the file of offset {int(right.name)}: its messages lie there" in report.notes
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")
