"""What `import logdex` offers by itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

import logdex


def test_the_packages_are_attributes() -> None:
    script = "import logdex; print(logdex.rocketmq.Message, logdex.kafka.Record, logdex.errors.UsageError)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.count("<class 'logdex.") == 3


def test_they_are_imported_when_they_are_asked_for() -> None:
    script = "import sys, logdex; print([name for name in sys.modules if name.startswith('logdex.')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_dir_lists_what_is_public() -> None:
    assert set(dir(logdex)) == {*logdex.__all__, "errors", "kafka", "rocketmq"}


def test_other_names_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="brokers"):
        _ = logdex.brokers  # type: ignore[attr-defined]
