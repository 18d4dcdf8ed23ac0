"""A clean log directory for each test, to harm."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.unit.kafka.verify.log_harm import make_log_dir


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_log_dir(tmp_path_factory.mktemp("harm"))


@pytest.fixture
def root(clean: Path, tmp_path: Path) -> Path:
    return shutil.copytree(clean, tmp_path / "logs")
