from __future__ import annotations

import subprocess
import sys

import pytest

import logdex.rocketmq


@pytest.mark.parametrize("name", logdex.rocketmq.__all__)
def test_the_fields_terms_can_be_imported(name: str) -> None:
    assert getattr(logdex.rocketmq, name).__name__ == name


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="Broker"):
        _ = logdex.rocketmq.Broker


def test_numba_is_loaded_for_kernels_alone() -> None:
    script = (
        "import sys; from logdex.rocketmq import CommitLog, ConsumeQueue, IndexFile, IndexService, StoreSnapshot\n"
        "print('numba' in sys.modules); from logdex.rocketmq import Scanner; print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "True"]
