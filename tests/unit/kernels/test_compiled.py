"""What is told of compiling, that its time is no time of work, and that kernels release the GIL."""

from __future__ import annotations

import pkgutil
import time
from importlib import import_module
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher

import logdex.kernels
from logdex.cli.find_view import view_of
from logdex.formats import FORMATS, detect, format_of
from logdex.io.env import DEFAULT_ENV
from logdex.jobs import work_time
from logdex.kernels.common import digits
from logdex.kernels.compiled import Compiling, kernel, load
from tests.conftest import GoldenStore

COMPILED_S = 1000.0


class AlwaysCompiling(Compiling):
    """As if a kernel was compiled for a long time between any two looks at the clock."""

    @property
    def seconds(self) -> float:
        self._seconds += COMPILED_S
        return self._seconds

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        self._seconds = seconds


def test_only_the_outermost_kernel_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    compiling, told = Compiling(), list[str | None]()
    monkeypatch.setattr(work_time, "compiling", compiling)
    work_time.show_compiling(told.append)
    began_s = work_time.work_seconds()
    compiling.begin("outer")
    compiling.begin("inner")
    time.sleep(0.05)
    compiling.end()
    compiling.end()
    compiling.begin("next")
    compiling.end()
    assert (told, compiling.kernels) == (["outer", None, "next", None], 3)
    assert compiling.seconds >= 0.05
    assert work_time.work_seconds() - began_s == pytest.approx(0, abs=0.04)


@pytest.mark.parametrize("name", FORMATS)
def test_reports_leave_it_out(
    name: str, golden_store: GoldenStore, golden_log: GoldenStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root = golden_store("tiny-5.5.0") if name == "rocketmq" else golden_log("tiny-broker")
    monkeypatch.setattr(work_time, "compiling", AlwaysCompiling())
    found = detect(root)
    done = format_of(found)
    options = {"in_place": False, "sync": False, "env": DEFAULT_ENV}
    assert done.verify(found, {}, max_findings=1).seconds < -COMPILED_S / 2
    rebuilt = done.rebuild(found, view_of(name, "warm_up").REBUILD_SETTINGS, str(tmp_path / "rebuilt"), **options)
    assert rebuilt.run(None).seconds < -COMPILED_S / 2


def test_kernels_release_the_gil() -> None:
    """Threads of `--jobs` run them at once."""
    load()
    names = [each.name for each in pkgutil.walk_packages(logdex.kernels.__path__, "logdex.kernels.")]
    kernels = {each for name in names for each in vars(import_module(name)).values() if isinstance(each, Dispatcher)}
    assert len(kernels) > 40
    assert [each for each in kernels if not each.targetoptions.get("nogil")] == []


def test_python_cannot_call_a_kernel_that_only_kernels_call() -> None:
    load()
    with pytest.raises(TypeError, match="only kernels call put_int"):
        digits.put_int(0, 1)


def test_a_constant_argument_is_no_reason_to_compile_once_more() -> None:
    load()

    @kernel
    def twice(number: int, times: int) -> int:
        return number << times

    @kernel
    def four_times(number: int) -> int:
        return twice(number, 1) + twice(number, 1 + number - number)

    assert four_times(3) == 12
    assert len(twice.signatures) == 1  # type: ignore[attr-defined]
