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
