"""A broker and an open `MessageStore` exclude each other on one directory: whoever comes second
does not start; when the first has ended, the other may.

A broker loads a store before it looks at its lock. It removes the CommitLog file that was made
ahead, and IndexFiles, whose keys the next opening derives again.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.errors import LogInUseError
from logdex.rocketmq import Message, MessageStore
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify import verify
from tests.interop.rocketmq.engines import VERSIONS
from tests.java import QUICK

pytestmark = [pytest.mark.needs_java, pytest.mark.slow, pytest.mark.timeout(600)]

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 65536,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 100,
    "max_index_num": 10_000,
}
GEOMETRY = ("--commitlog", "65536", "--cq", "100", "--slots", "100", "--max-index", "10000")


def start(peers: Path, version: str, root: Path, messages: int) -> subprocess.Popen[str]:
    command = [str(peers / "run"), "-v", version, "RunBroker", "--dir", str(root), "--messages", str(messages)]
    environ = {**os.environ, "JAVA_OPTS": " ".join(QUICK)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen([*command, *GEOMETRY], env=environ, text=True, start_new_session=True, **pipes)  # type: ignore[call-overload,no-any-return]


@contextmanager
def serving(peers: Path, version: str, root: Path) -> Iterator[subprocess.Popen[str]]:
    """A broker that has started, and runs until the end."""
    process = start(peers, version, root, 100_000)
    try:
        until_s = time.monotonic() + 240
        while not (root / "abort").exists():  # the broker makes it after it has taken the lock
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < until_s
            time.sleep(0.05)
        yield process
    finally:
        os.killpg(process.pid, 9)
        process.communicate()


def bodies(root: Path) -> list[bytes]:
    with logdex.open(root, **SIZES) as snapshot:
        return [message.body for message in snapshot.scan(topic="ours")]  # type: ignore[union-attr]


@pytest.mark.parametrize("version", VERSIONS)
def test_one_writer(version: str, peers_dir: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    with MessageStore.open(root, rocketmq_version=version, **SIZES) as store:
        assert store.put_message(Message("ours", b"one")).is_stored
        store.dispatch()
        store.flush()
        process = start(peers_dir, version, root, 3)
        told, _ = process.communicate(timeout=240)
        assert process.returncode != 0
        assert re.search("Lock failed, ?MQ already started", told)
        more = [b"%02d" % number + bytes(6000) for number in range(40)]  # several files
        for body in more:
            assert store.put_message(Message("ours", body, keys=body[:2])).is_stored
    ours = [b"one", *more]
    assert bodies(root) == ours
    with MessageStore.open(root, rocketmq_version=version, **SIZES) as store:
        for body in more:
            found = store.query_message("ours", body[:2])
            assert ([message.body for message in found.messages], found.complete) == ([body], True)
    report = verify(str(root), StoreConfig(**SIZES, dialect=Dialect.of(version)))
    assert [str(finding) for finding in report.findings] == []
    with serving(peers_dir, version, root) as process:
        for _ in range(3):
            with pytest.raises(LogInUseError, match="a broker runs on this store"):
                MessageStore.open(root, rocketmq_version=version, **SIZES)
            time.sleep(0.3)
        assert process.poll() is None
        assert bodies(root) == ours  # reading needs no lock
    with MessageStore.open(root, rocketmq_version=version, **SIZES) as store:
        assert not store.load_report.was_clean
        assert store.put_message(Message("ours", b"three")).is_stored
    assert bodies(root) == [*ours, b"three"]
    report = verify(str(root), StoreConfig(**SIZES, dialect=Dialect.of(version)))
    assert [str(finding) for finding in report.findings] == []
