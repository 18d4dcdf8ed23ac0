"""A store that all tests of `rocketmq_store` read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.rocketmq.small_stores import MESSAGES, build


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("streams") / "broker-a", MESSAGES)
