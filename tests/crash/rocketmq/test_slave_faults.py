"""A slave whose disk refuses, at any call: a typed error, and nothing is acknowledged that is not
on disk."""

from __future__ import annotations

import errno
import shutil
import socket
from itertools import pairwise
from pathlib import Path

import pytest

from logdex.errors import LogdexError, LogFailedError, StorageError
from logdex.rocketmq.ha.client import HAClient
from logdex.rocketmq.ha.wire import pack_transfer
from logdex.testing import Fault, FaultEnv
from tests.unit.rocketmq.ha.masters import Behaviour, filled_store, follow, log_bytes, read_report, serving
from tests.unit.rocketmq.message_store.open_stores import require_sound

REFUSALS = (errno.ENOSPC, errno.EIO)
_PART_BYTES = 2048  # files have twice as many
LOSES_ALL = 5
"""The seed of a power cut that loses all that was not synced."""


@pytest.fixture
def acknowledged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What slaves report, but for offset 1, which asks for an empty log."""
    reports: list[int] = []
    report = HAClient.report

    def note_and_report(client: HAClient, offset: int) -> None:
        reports.extend([offset] if offset > 1 else [])
        report(client, offset)

    monkeypatch.setattr(HAClient, "report", note_and_report)
    return reports


def in_parts(log: bytes) -> Behaviour:
    """Serves a log, and waits for a report after each part, so that there are several."""

    def behave(own: socket.socket, request: int) -> None:
        places = [request, *range(request // _PART_BYTES * _PART_BYTES + _PART_BYTES, len(log), _PART_BYTES), len(log)]
        for at, end in pairwise(places):
            own.sendall(pack_transfer(at, log[at:end]))
            read_report(own)
        own.sendall(pack_transfer(len(log)))

    return behave


def run(log: bytes, path: Path, env: FaultEnv) -> list[LogdexError]:
    """Follows a master until the slave has all of its log, or its disk refuses. Then it tries once
    more without a new start. Returns the errors."""
    errors: list[LogdexError] = []
    with serving(in_parts(log)) as master:
        try:
            with follow(master, path, env=env, background=False) as slave:
                for _ in range(2):
                    try:
                        slave.run(until_caught_up=True)
                        break
                    except LogdexError as error:
                        errors.append(error)
        except LogdexError as error:
            errors.append(error)
    return errors


def refuse(log: bytes, folder: Path, fault: Fault, acknowledged: list[int]) -> list[LogdexError]:
    """Returns the errors of a run with a fault; none if the refused call was tried again."""
    folder.mkdir()
    acknowledged.clear()
    env = FaultEnv(str(folder), fault)
    errors = run(log, folder / "slave", env)
    kind, path = env.log[fault.at - 1] if len(env.log) >= fault.at else ("", "")
    try:
        assert {error.errno for error in errors if isinstance(error, StorageError)} <= {fault.errno}
        assert env.open_paths == []
        end = max(acknowledged, default=0)
        env.survivor(str(folder / "left"), LOSES_ALL)
        assert not end or log_bytes(folder / "left" / "slave")[:end] == log[:end]
        assert run(log, folder / "slave", FaultEnv(str(folder))) == []
        assert log_bytes(folder / "slave")[: len(log)] == log
        require_sound(folder / "slave")
    except BaseException as error:
        error.add_note(f"call {fault.at}, {fault.errno}, lasting {fault.lasting}: {kind} {path}; {errors}")
        raise
    shutil.rmtree(folder)
    return errors


def calls(log: bytes, folder: Path, acknowledged: list[int]) -> list[tuple[str, str]]:
    """The calls of a slave to which nothing happens, in their order."""
    folder.mkdir()
    env = FaultEnv(str(folder))
    assert run(log, folder / "slave", env) == []
    assert len(set(acknowledged)) > 3
    assert acknowledged[-1] == len(log)
    return env.log


def test_a_failed_fsync_of_a_slave(tmp_path: Path, acknowledged: list[int]) -> None:
    """Its bytes are in the log by then. The slave acknowledges them neither now nor when it
    connects again."""
    log = filled_store(tmp_path / "master", 40)
    found = calls(log, tmp_path / "whole", acknowledged)
    syncs = [at for at, (kind, path) in enumerate(found, 1) if kind == "sync" and "/commitlog/" in path]
    errors = refuse(log, tmp_path / "refused", Fault(syncs[3], errno.EIO), acknowledged)
    assert [type(error) for error in errors] == [StorageError, LogFailedError]


@pytest.mark.slow
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("code", REFUSALS, ids=errno.errorcode.get)
def test_a_slaves_disk_refuses(code: int, lasting: bool, tmp_path: Path, acknowledged: list[int]) -> None:
    log = filled_store(tmp_path / "master", 40)
    for at in range(1, len(calls(log, tmp_path / "whole", acknowledged)) + 1):
        refuse(log, tmp_path / str(at), Fault(at, code, lasting=lasting), acknowledged)
