"""Golden cases on a real S3-compatible server: moto's, in this process."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.errors import StorageError
from logdex.io.env import Env
from tests import remote
from tests.conformance.rocketmq.test_store import geometry_of

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_both_formats(s3: dict[str, Any], golden_store: Callable[..., Path], golden_log: Callable[[str], Path]) -> None:
    for root, settings in ((golden_store("tiny-broker"), geometry_of("tiny-broker")), (golden_log("tiny-broker"), {})):
        url, env = remote.uploaded(s3, root, "backup"), Env(storage=s3)
        with logdex.open(root, **settings) as here, logdex.open(url, env=env, **settings) as there:
            rows = here.scan().to_arrow().read_all()
            assert there.scan().to_arrow().read_all().to_pylist() == rows.to_pylist()
        assert len(rows)
        assert not env.exists(f"{url}/none")


def test_a_task_sees_what_its_plan_saw(s3: dict[str, Any], tmp_path: Path) -> None:
    """Another process may have listed the directory just before an object of it grew."""
    (tmp_path / "log").mkdir()
    file = tmp_path / "log" / "file"
    file.write_bytes(b"1")
    url = remote.uploaded(s3, tmp_path / "log", "tasks")
    env = Env(storage=s3)
    assert (env.list_dir(url), env.size_bytes(f"{url}/file")) == (["file"], 1)
    file.write_bytes(b"12")
    remote.uploaded(s3, tmp_path / "log", "tasks")
    assert pickle.loads(pickle.dumps(env)).read_file(f"{url}/file", 10) == b"12"


@pytest.mark.slow
def test_an_endpoint_that_does_not_answer() -> None:
    pytest.importorskip("s3fs", reason="needs s3fs: pip install 'logdex[remote]'")
    began = time.monotonic()
    with pytest.raises(StorageError, match="endpoint"):
        logdex.open("s3://backup/store", env=Env(storage={**remote.S3_KEYS, "endpoint_url": "http://127.0.0.1:9"}))
    assert time.monotonic() - began < 60
