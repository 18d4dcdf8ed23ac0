"""A ConsumeQueue's directory that the system does not list: what does not need it goes on."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from logdex.errors import StorageError
from logdex.io.env import Env
from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.recover import recover
from logdex.rocketmq.snapshot.overview import overview
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from tests.crash.trees import tree
from tests.unit.rocketmq.small_stores import CONFIG, MESSAGES, build, message


class NotListed(Env):
    """An Env that cannot list one directory."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = str(path)

    def list_dir(self, path: str) -> list[str]:
        if path == self._path:
            raise StorageError("input/output error", path=path, errno=errno.EIO)
        return super().list_dir(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build(tmp_path / "store", [*MESSAGES, *(message(number, queue_id=1) for number in range(20))])


@pytest.fixture
def env(root: Path) -> NotListed:
    return NotListed(root / "consumequeue" / "TopicA" / "0")


def test_what_does_not_need_it_goes_on(root: Path, env: NotListed, tmp_path: Path) -> None:
    assert resolve_config(str(root), env=env).mapped_file_size_consume_queue == CONFIG.mapped_file_size_consume_queue
    assert overview(str(root), CONFIG, env=env).problems == [f"{root}/consumequeue/TopicA/0: input/output error"]
    with StoreSnapshot(str(root), config=CONFIG, env=env) as store:
        assert len(list(store.scan())) == 60
        assert len(store.get_message("TopicA", queue_id=1, offset=0, max_count=32).messages) == 20
        with pytest.raises(StorageError, match="TopicA/0"):
            store.get_message("TopicA", queue_id=0, offset=0)
    for work in (rebuild, recover):
        works = [
            work(str(root), str(tmp_path / f"{work.__name__}{n}"), CONFIG, sync=False, env=each)
            for n, each in enumerate((Env(), env))
        ]
        assert len(works) == 2
        assert tree(tmp_path / f"{work.__name__}0") == tree(tmp_path / f"{work.__name__}1")


def test_verify_reports_it(root: Path, env: NotListed) -> None:
    assert verify(root, CONFIG).findings == []
    (finding,) = verify(root, CONFIG, env=env).findings
    assert (finding.check, finding.path) == ("unreadable", str(root / "consumequeue" / "TopicA" / "0"))
