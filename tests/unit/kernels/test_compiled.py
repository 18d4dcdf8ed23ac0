"""What is told of compiling, and that its time is no time of work."""

from __future__ import annotations

import time

import pytest

from logdex.jobs import work_time
from logdex.kernels.compiled import Compiling


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
