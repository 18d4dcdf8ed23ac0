"""Any file of a store but the CommitLog that the disk cannot read: rebuild and verify go on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logdex.formats import detect, format_of
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.verify import verify
from logdex.testing import BadSectorsEnv
from tests.hostile.rocketmq.cut_readers import CONFIG, MESSAGES, make


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("bad") / "store")


def files_of(root: Path) -> list[Path]:
    found = [path for path in root.rglob("*") if path.is_file() and path.stat().st_size]
    return sorted(path for path in found if path.parent.name != "commitlog")


def bad_env(path: Path) -> BadSectorsEnv:
    return BadSectorsEnv({str(path): [(0, path.stat().st_size)]})


def test_rebuild_needs_no_derived_file(root: Path, tmp_path: Path) -> None:
    for number, path in enumerate(files_of(root)):
        report = rebuild(str(root), str(tmp_path / str(number)), CONFIG, sync=False, env=bad_env(path))
        assert report.messages == MESSAGES, path


def test_verify_names_each_file(root: Path) -> None:
    for path in files_of(root):
        report = verify(str(root), CONFIG, env=bad_env(path))
        assert [finding.check for finding in report.findings if finding.path == str(path)] == ["unreadable"], path
        assert {finding.path for finding in report.findings} == {str(path)}
        assert report.messages == MESSAGES


@pytest.mark.parametrize("is_unclean", [False, True])
def test_verify_names_a_sector_and_goes_on(root: Path, tmp_path: Path, is_unclean: bool) -> None:
    """One sector of a queue, an IndexFile or another file: all other files are compared with the
    log."""
    harmed = Path(shutil.copytree(root, tmp_path / "store"))
    if is_unclean:
        (harmed / "abort").touch()
    for path in files_of(harmed):
        size = path.stat().st_size
        for start in (0, size // 3):
            report = verify(str(harmed), CONFIG, env=BadSectorsEnv({str(path): [(start, start + 1)]}))
            assert [finding.check for finding in report.findings] == ["unreadable"], (path, start)
            assert report.findings[0].path == str(path)
            assert report.messages == MESSAGES


def test_the_command_names_each_file_too(root: Path) -> None:
    """With sizes and version inferred from what can be read."""
    for path in files_of(root):
        env = bad_env(path)
        found = detect(str(root), env=env)
        report = format_of(found).verify(found, {}, max_findings=100, env=env)
        assert {finding.path for finding in report.findings if finding.check == "unreadable"} == {str(path)}
        assert report.messages == MESSAGES
