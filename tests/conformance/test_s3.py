"""Golden cases on a real S3-compatible server: moto's, on this machine. Needs s3fs, and moto with flask."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.errors import StorageError
from logdex.io.env import Env
from tests import remote
from tests.conformance.rocketmq.test_store import geometry_of

pytestmark = pytest.mark.slow
KEYS = {"key": "test", "secret": "test"}


@pytest.fixture
def storage() -> Iterator[dict[str, Any]]:
    pytest.importorskip("s3fs", reason="needs s3fs: pip install 'logdex[remote]'")
    pytest.importorskip("flask_cors", reason="needs moto: pip install moto flask flask-cors")
    server = pytest.importorskip("moto.server", reason="needs moto: pip install moto flask flask-cors")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    try:
        yield {**KEYS, "endpoint_url": f"http://{host}:{port}"}
    finally:
        running.stop()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_both_formats(
    storage: dict[str, Any], golden_store: Callable[..., Path], golden_log: Callable[[str], Path]
) -> None:
    import fsspec

    system = fsspec.filesystem("s3", **storage)
    system.mkdir("backup")
    for root, settings in ((golden_store("tiny-broker"), geometry_of("tiny-broker")), (golden_log("tiny-broker"), {})):
        url = f"s3://backup/{root.name}"
        remote.put_tree(system, root, f"backup/{root.name}")
        env = Env(storage=storage)
        with logdex.open(root, **settings) as here, logdex.open(url, env=env, **settings) as there:
            rows = here.scan().to_arrow().read_all()
            assert there.scan().to_arrow().read_all().to_pylist() == rows.to_pylist()
        assert len(rows)
        assert not env.exists(f"{url}/none")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_an_endpoint_that_does_not_answer() -> None:
    pytest.importorskip("s3fs", reason="needs s3fs: pip install 'logdex[remote]'")
    began = time.monotonic()
    with pytest.raises(StorageError, match="endpoint"):
        logdex.open("s3://backup/store", env=Env(storage={**KEYS, "endpoint_url": "http://127.0.0.1:9"}))
    assert time.monotonic() - began < 60
