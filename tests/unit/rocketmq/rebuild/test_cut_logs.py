"""A rebuild while a broker that recovers cuts the log, and goes on with it: what it writes is of
the log before or of the one after."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from logdex.rocketmq.rebuild import RebuildReport, rebuild, rebuild_on
from tests.beside import At, become
from tests.directories import contents
from tests.examples import some
from tests.unit.rocketmq.rebuild.test_job import Serial
from tests.unit.rocketmq.small_stores import CONFIG, MESSAGES, REGROWN, build


@pytest.mark.parametrize("run", [rebuild, partial(rebuild_on, Serial())], ids=["local", "tasks"])
def test_the_log_is_cut_before_any_operation(tmp_path: Path, run: Callable[..., RebuildReport]) -> None:
    before, after = build(tmp_path / "before", MESSAGES), build(tmp_path / "after", REGROWN)
    still = At(0, lambda: None)
    expected = []
    for store in (before, after):
        assert run(store, tmp_path / "out", CONFIG, sync=False, env=still).losses == []
        expected.append(contents(tmp_path / "out"))
        shutil.rmtree(tmp_path / "out")
    met = set[int]()
    for number in some(range(1, -still.left // 2 + 1), 60):
        root = Path(shutil.copytree(before, tmp_path / "root"))
        env: Any = At(number, partial(become, root, after))
        report = run(root, tmp_path / "out", CONFIG, sync=False, env=env)
        assert report.losses == [], number
        found = contents(tmp_path / "out")
        assert found in expected, number
        met.add(expected.index(found))
        shutil.rmtree(root)
        shutil.rmtree(tmp_path / "out")
    assert met == {0, 1}
