"""Files with consumer offsets: the engine's classes read what Logdex wrote and go on with it, and
the other way round."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager
from logdex.rocketmq.consuming.local_offsets import LocalFileOffsetStore
from logdex.rocketmq.settings.dialect import Dialect
from tests.interop.rocketmq.engines import VERSIONS
from tests.interop.rocketmq.programs import Program

pytestmark = [pytest.mark.needs_java, pytest.mark.slow]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_brokers_file(version: str, peers_dir: Path, tmp_path: Path) -> None:
    program = Program(peers_dir, version, "OffsetFiles", tmp_path)
    file = tmp_path / "config" / "consumerOffset.json"
    ours = ConsumerOffsetManager(tmp_path, dialect=Dialect.of(version))
    ours.commit_offsets("G", {(b"orders", 0): 17, (b"orders", 12): 1 << 40, (b"%RETRY%G", 0): 0})
    ours.commit_offset("H", "orders", 1, 5)
    assert sorted(program.run("broker", file, "orders@G", 0, 18, "new@H", 3, 4)) == [
        "%RETRY%G@G {0=0}", "orders@G {0=17, 12=1099511627776}", "orders@H {1=5}"
    ]  # fmt: skip
    assert ours.query_offsets("G", "orders") == {0: 18, 12: 1 << 40}
    assert ours.query_offsets("H", "new") == {3: 4}
    ours.commit_offset("G", "orders", 0, 19)
    assert "orders@G {0=19, 12=1099511627776}" in program.run("broker", file)
    file.unlink()
    assert "orders@G {0=18, 12=1099511627776}" in program.run("broker", file)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_clients_file(version: str, peers_dir: Path, tmp_path: Path) -> None:
    program = Program(peers_dir, version, "OffsetFiles", tmp_path)
    options = (f"-Drocketmq.client.localOffsetStoreDir={tmp_path}",)
    file = tmp_path / "127.0.0.1@DEFAULT" / "G" / "offsets.json"
    ours = LocalFileOffsetStore(file, broker_name="golden")
    ours.persist("Orders", {0: 12, 1: 7})
    client = ("client", "G", "golden", "Orders", 3)
    assert program.run(*client, 2, 5, options=options) == ["0 12", "1 7", "2 -1"]
    assert ours.read_offsets("Orders") == {0: 12, 1: 7, 2: 5}
    ours.persist("Orders", {2: 6})
    assert program.run(*client, options=options) == ["0 12", "1 7", "2 6"]
