"""How many files stay open: a share of what the process may have."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.convert.open_logs import OpenLogs
from logdex.io.env import Env
from logdex.io.open_files import OpenShare
from logdex.io.output_files import OutputFiles
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log


class FewDescriptors(Env):
    def descriptors_max(self) -> int:
        return 80


def open_below(folder: Path) -> int:
    """How many files of a folder this process has open."""
    names = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return sum(str(each.readlink()).startswith(str(folder)) for each in names)


def test_holders_divide_half_of_the_descriptors() -> None:
    env, share = FewDescriptors(), OpenShare(30)
    holders = [object() for _ in range(20)]
    assert [share.of(each, env) for each in holders[:3]] == [30, 20, 13]
    assert share.of(holders[0], env) == 13
    share.leave(holders[1])
    assert share.of(holders[0], env) == 20
    assert [share.of(each, env) for each in holders][-1] == 4, "each may keep some open"
    assert OpenShare(30, files_each=5).of(holders[0], env) == 8
    assert OpenShare(30).of(holders[0], Env()) == 30


def test_outputs_of_several_threads(tmp_path: Path) -> None:
    env = FewDescriptors()
    outputs = [OutputFiles(env, sync=True) for _ in range(2)]
    for number in range(60):
        for name, output in enumerate(outputs):
            output.put(f"{tmp_path}/{name}/{number}", b"%d" % number)
        assert open_below(tmp_path) <= 40
    assert [output.close() for output in outputs] == [60, 60]
    assert open_below(tmp_path) == 0
    assert (tmp_path / "1" / "7").read_bytes() == b"7"


def test_logs(tmp_path: Path) -> None:
    env = FewDescriptors()
    logs = OpenLogs(lambda name: Log.open(tmp_path / name, env=env), env)
    for turn in range(2):
        for number in range(20):
            logs.log(f"events-{number}").append([Record(b"k", b"%d" % number)])
            assert open_below(tmp_path) <= 40, turn
    logs.close()
    assert open_below(tmp_path) == 0
    for number in range(20):
        with Log.open(tmp_path / f"events-{number}") as log:
            assert [record.value for record in log.records(0)] == [b"%d" % number] * 2


@pytest.mark.parametrize("most", [1, 3])
def test_a_bound_that_is_given(most: int, tmp_path: Path) -> None:
    output = OutputFiles(Env(), sync=False, open_max=most)
    for number in range(5):
        output.put(f"{tmp_path}/{number}", b"x")
    assert open_below(tmp_path) == most
    output.close()
