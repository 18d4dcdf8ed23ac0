"""Parts of a store that may be missing in a healthy one: information that says what to type."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.recover import recover
from logdex.rocketmq.verify import verify
from tests.unit.rocketmq.small_stores import CONFIG, MESSAGES, build


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with all that a broker leaves."""
    built = build(tmp_path / "made", MESSAGES)
    (built / "config").mkdir()
    (built / "config" / "topics.json").write_text("{}")
    (built / "config" / "consumerOffset.json").write_text("{}")
    recover(built, tmp_path / "a store", CONFIG, sync=False)
    assert infos(tmp_path / "a store") == {}
    return tmp_path / "a store"


def infos(root: Path) -> dict[str, str]:
    report = verify(root, CONFIG)
    assert report.is_sound
    return {info.kind: info.message for info in report.infos}


def test_no_index(root: Path) -> None:
    """The checkpoint does not say that a broker had flushed one."""
    shutil.rmtree(root / "index")
    root.joinpath("checkpoint").write_bytes(StoreCheckpoint().pack())
    told = infos(root)["index-not-written"]
    assert told.endswith(f"logdex rebuild {shlex.quote(str(root))} --output DIR writes the entries")
    rebuild(str(root), str(root), CONFIG, in_place=True, sync=False)
    assert infos(root) == {}


@pytest.mark.parametrize("missing", ["config", "config/topics.json"])
def test_no_topics(root: Path, tmp_path: Path, missing: str) -> None:
    backup = shutil.copytree(root, tmp_path / "BACKUP")
    if (root / missing).is_dir():
        shutil.rmtree(root / missing)
    else:
        (root / missing).unlink()
    told = infos(root)["no-topics"]
    assert told.startswith(f"there is no {Path(missing).name}: a broker that starts here knows no topics")
    command = told[told.index("cp -r ") :]
    subprocess.run(command, shell=True, check=True, cwd=backup.parent)
    assert infos(root) == {}


def test_no_consumer_offsets(root: Path, tmp_path: Path) -> None:
    """Only a broker has subscription groups, and it always writes how far each group is."""
    config = root / "config"
    (config / "consumerOffset.json").unlink(missing_ok=True)
    assert infos(root) == {}
    (config / "subscriptionGroup.json").write_text("{}")
    (config / "consumerOffset.json.bak").write_text('{"offsetTable":{}}')
    assert infos(root).keys() == {"no-config"}
    (config / "consumerOffset.json.bak").rename(config / "consumerOffset.json")
    assert infos(root) == {}
    backup = shutil.copytree(root, tmp_path / "BACKUP")
    (config / "consumerOffset.json").unlink()
    told = infos(root)["no-consumer-offsets"]
    assert told.startswith("there is none: with a broker that starts here, each group begins anew")
    subprocess.run(told[told.index("cp -r ") :], shell=True, check=True, cwd=backup.parent)
    assert infos(root) == {}
