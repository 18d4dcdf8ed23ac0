"""Any file of a log directory that the disk cannot read: recover, rebuild and verify go on, a log
that is opened for writing is not cut."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logdex.errors import UnreadableError
from logdex.io.env import Env
from logdex.kafka.log.log import Log
from logdex.kafka.rebuild import rebuild
from logdex.kafka.recover import recover
from logdex.kafka.verify import verify
from logdex.testing import BadSectorsEnv
from tests.hostile.kafka.cut_readers import make, partition


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("bad") / "logs")


def files_of(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".log" and path.stat().st_size)


def bad_env(path: Path) -> BadSectorsEnv:
    return BadSectorsEnv({str(path): [(0, path.stat().st_size)]})


def test_recover_needs_no_derived_file(root: Path, tmp_path: Path) -> None:
    with partition(root, Env()) as sound:
        records = [*sound.scan()]
    for number, path in enumerate(files_of(root)):
        output = tmp_path / str(number)
        recover(str(root), str(output), sync=False, env=bad_env(path))
        with partition(output, Env()) as found:
            assert [*found.scan()] == records, path


def test_rebuild_needs_no_derived_file(root: Path, tmp_path: Path) -> None:
    for number, path in enumerate(files_of(root)):
        report = rebuild(str(root), str(tmp_path / str(number)), sync=False, env=bad_env(path))
        assert report.messages, path


def test_verify_names_each_file(root: Path) -> None:
    for path in files_of(root):
        report = verify(str(root), env=bad_env(path))
        assert any(finding.path == str(path) for finding in report.findings), path


def test_a_log_is_not_cut_because_a_disk_fails(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "events-0"
    shutil.copytree(root / "events-0", copy)
    sizes = {path.name: path.stat().st_size for path in copy.glob("*.log")}
    for path in sorted(copy.glob("*.log")):
        env = BadSectorsEnv({str(path): [(4096, 4608)]})
        if path.stat().st_size:
            with pytest.raises(UnreadableError):
                Log.open(str(copy), env=env)
        assert {path.name: path.stat().st_size for path in copy.glob("*.log")} == sizes
