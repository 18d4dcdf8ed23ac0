"""A log that a broker cuts, and then goes on with, while it is dispatched."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from logdex.errors import LogInUseError
from logdex.io.env import Env
from logdex.jobs.tasks import LocalRunner
from logdex.rocketmq.dispatch.job import Dispatcher
from logdex.rocketmq.dispatch.output import DispatchOutput
from logdex.rocketmq.message.stored_message import StoredMessage
from tests.beside import At, become
from tests.examples import some
from tests.unit.rocketmq.dispatch.growing import files_of
from tests.unit.rocketmq.small_stores import CONFIG, CUT, MESSAGES, REGROWN, build

Files = dict[str, bytes]


def dispatched(store: Path, output: Path, env: Env, *, on_runner: bool) -> Files:
    """The files after a run of two steps and another run, none of which has a loss."""
    for each in (env, Env()):
        with Dispatcher(store, output, CONFIG, env=each) as job:
            for _ in range(2):
                job.step(LocalRunner() if on_runner else None, part_size_bytes=700)
        assert job.report.losses == []
    return files_of(output)


@pytest.mark.parametrize("on_runner", [False, True])
@pytest.mark.parametrize("messages", [CUT, REGROWN], ids=["cut", "regrown"])
def test_the_log_is_cut_before_any_operation(tmp_path: Path, messages: list[StoredMessage], on_runner: bool) -> None:
    """What is dispatched is that of the log which is there then."""
    before, after = build(tmp_path / "before", MESSAGES), build(tmp_path / "after", messages)
    still = At(0, lambda: None)
    dispatched(before, tmp_path / "still", still, on_runner=on_runner)
    right = files_of(after)
    for number in some(range(1, -still.left + 1), 7):
        root, output = Path(shutil.copytree(before, tmp_path / "root")), tmp_path / "output"
        env = At(number, partial(become, root, after))
        assert dispatched(root, output, env, on_runner=on_runner) == right, number
        shutil.rmtree(root)
        shutil.rmtree(output)


def test_the_log_never_stays_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not looked at for ever."""
    store = build(tmp_path / "store", MESSAGES)
    monkeypatch.setattr(DispatchOutput, "still_holds", lambda _: False)
    with pytest.raises(LogInUseError, match="keeps changing"), Dispatcher(store, tmp_path / "output", CONFIG) as job:
        job.step()
