"""Any file of a store but the CommitLog that the disk cannot read: rebuild and verify go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.errors import UnreadableError
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
        try:
            report = verify(str(root), CONFIG, env=bad_env(path))
        except UnreadableError as error:
            named = {error.path}
        else:
            named = {finding.path for finding in report.findings}
        assert str(path) in named
