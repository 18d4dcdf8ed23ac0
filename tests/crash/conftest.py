"""What the crash tests of both formats ask for."""

from __future__ import annotations

import os
import shutil
from itertools import count
from pathlib import Path

import pytest

from tests.crash.trees import Fresh


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The power cut is `FaultEnv`'s: the disk below need not be waited for."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture
def fresh(tmp_path: Path) -> Fresh:
    """Gives an empty directory, removed when the next one is asked for."""
    numbers = count()

    def make() -> Path:
        number = next(numbers)
        shutil.rmtree(tmp_path / str(number - 1), ignore_errors=True)
        (tmp_path / str(number)).mkdir()
        return tmp_path / str(number)

    return make
