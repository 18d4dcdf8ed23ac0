"""Jobs while the directory ``index/`` is removed, as an operator does who has it derived anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from logdex.io.env import Env
from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.snapshot.overview import overview
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from tests.beside import At
from tests.examples import some
from tests.unit.rocketmq.small_stores import CONFIG, FILE_SIZE, MESSAGES, build


class OnIndex(At):
    """Counts only what touches the directory itself, or a file in it: with `whole` the former."""

    def __init__(self, number: int, act: Callable[[], object], *, whole: bool) -> None:
        super().__init__(number, act)
        self._whole = whole

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        is_counted = path.endswith("/index") if self._whole else "/index/" in path
        with super().operation(kind, path) if is_counted else Env.operation(self, kind, path):
            yield


def shown(root: Path, env: Env) -> object:
    return overview(str(root), CONFIG, env=env).problems


def found(root: Path, env: Env) -> object:
    return len(verify(str(root), CONFIG, env=env).findings)


def rebuilt(root: Path, env: Env) -> object:
    output = root.with_name("output")
    losses = rebuild(str(root), str(output), CONFIG, sync=False, env=env).losses
    shutil.rmtree(output)
    return losses


def asked(root: Path, env: Env) -> object:
    with StoreSnapshot(root, config=CONFIG, env=env) as snapshot:
        return len(snapshot.query_message("TopicA", "hot", scan_missing=True).messages)


def sized(root: Path, env: Env) -> object:
    return resolve_config(str(root), env=env, mapped_file_size_commit_log=FILE_SIZE).max_index_num


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("removed") / "store", MESSAGES)


@pytest.mark.parametrize("run", [shown, found, rebuilt, asked, sized])
def test_the_index_goes_before_any_operation_on_it(
    store: Path, run: Callable[[Path, Env], object], tmp_path: Path
) -> None:
    def remove(root: Path) -> None:
        shutil.rmtree(root / "index")

    still = [OnIndex(0, lambda: None, whole=whole) for whole in (True, False)]
    right = []
    for each in (*still, Env()):
        rest = Path(shutil.copytree(store, tmp_path / "rest"))
        if each not in still:
            remove(rest)
        right.append(run(rest, each))
        shutil.rmtree(rest)
    for each in still:
        whole = each is still[0]
        for number in some(range(1, -each.left + 1), 1 if whole else 9):
            root = Path(shutil.copytree(store, tmp_path / f"{whole}-{number}"))
            assert run(root, OnIndex(number, partial(remove, root), whole=whole)) in right, (whole, number)
            shutil.rmtree(root)
