"""A dispatch that follows the CommitLog of a real engine which writes as fast as it can, broken off
again and again."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

import pytest

from logdex.convert.index_pipeline import IndexPipeline
from logdex.rocketmq.dispatch.job import Dispatcher
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.settings.store_config import StoreConfig
from tests.interop.rocketmq.scenarios import MARKED_VERSIONS
from tests.interop.rocketmq.test_live import config_when_there, live
from tests.unit.rocketmq.dispatch.growing import files_of

pytestmark = [pytest.mark.needs_java, pytest.mark.slow, pytest.mark.timeout(900)]


def follow(process: subprocess.Popen[bytes], store: Path, output: Path, config: StoreConfig) -> list[int]:
    """Follows the store while the engine writes, in runs of three seconds; every other one is
    broken off, without its files being completed. Returns the messages of each run."""
    found = []
    while process.poll() is None:
        job = Dispatcher(store, output, config)
        running = threading.Thread(target=IndexPipeline(job).run, kwargs={"follow": True, "every_s": 0.1})
        running.start()
        deadline = time.monotonic() + 3
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        job.stop()
        running.join()
        found.append(job.report.messages)
        if len(found) % 2:
            job._output.abandon()
        else:
            job.close()
        assert not job.report.notes
    return found


@pytest.mark.parametrize("version", MARKED_VERSIONS)
def test_a_writing_engine_is_followed(version: str, peers_dir: Path, tmp_path: Path) -> None:
    """In the end the files are those of a rebuild, byte for byte."""
    store, output = tmp_path / "store", tmp_path / "out"
    with live(peers_dir, version, store) as process:
        config = config_when_there(store, process)
        runs = follow(process, store, output, config)
    assert len([messages for messages in runs if messages]) >= 3
    with Dispatcher(store, output, config) as job:
        job.step()
    assert not job.report.lossy
    rebuild(str(store), str(tmp_path / "rebuilt"), config, sync=False)
    expected, found = files_of(tmp_path / "rebuilt"), files_of(output)
    assert sorted(found.keys() ^ expected.keys()) == []
    assert [name for name in expected if found[name] != expected[name]] == []
    assert len(expected) > 5
