"""A Kafka `Log` on a disk that refuses: full, broken, read-only, without descriptors, at any
call."""

from __future__ import annotations

import errno
import random
import threading
from pathlib import Path

import pytest

from logdex.errors import LogdexError, LogFailedError, StorageError
from logdex.io.env import Env
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import LogConfig
from logdex.testing import Fault, FaultEnv
from tests.crash.kafka.runs import NAME, NOW_MS, Model, Run, check_left, clock, go_on
from tests.examples import some

REFUSALS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EROFS)
CONFIG = LogConfig(
    segment_bytes=1200, segment_index_bytes=120, index_interval_bytes=60, flush="sync", segment_ms=1 << 40
)
STEPS = (
    *("append", "append", "transactional", "marker", "append", "columns", "roll", "append", "append", "flush"),
    *("append", "truncate", "append", "delete", "append", "transactional", "marker", "retention", "append"),
)


def play(root: Path, env: Env, model: Model) -> list[LogdexError]:
    """Opens, works, closes; what was refused. After a refusal one more append is tried, then the
    log is closed."""
    refused: list[LogdexError] = []
    try:
        log = Log.open(str(root / NAME), CONFIG, env=env, clock_ms=clock)
    except LogdexError as error:
        return [error]
    run = Run(log, model, random.Random(5))
    try:
        for step in STEPS:
            getattr(run, step)()
    except LogdexError as error:
        refused.append(error)
        check_what_comes_next(log, error)
    try:
        log.close()
    except LogdexError as error:
        refused.append(error)
    return refused


def check_what_comes_next(log: Log, error: LogdexError) -> None:
    """After a refused write nothing is acknowledged; a refused read leaves a log that works."""
    with pytest.raises((StorageError, LogFailedError)) as refused:
        log.append(Record(value=b"one more", timestamp_ms=NOW_MS))
    if isinstance(refused.value, LogFailedError):
        assert refused.value.__cause__ is error


@pytest.mark.parametrize("code", REFUSALS, ids=errno.errorcode.get)
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
def test_refused_at_any_call(tmp_path: Path, code: int, lasting: bool) -> None:
    (tmp_path / "whole").mkdir()
    env = FaultEnv(str(tmp_path / "whole"))
    assert play(tmp_path / "whole", env, Model()) == []
    calls = env.count()
    assert calls > 200
    first = REFUSALS.index(code) * 2 + lasting
    for at in some(range(1 + first, calls + 1, 8), 13):  # each call in turn, some with one error, some with another
        root = tmp_path / str(at)
        root.mkdir()
        env, model = FaultEnv(str(root), Fault(at, code, lasting=lasting)), Model()
        refused = play(root, env, model)
        if env.hits:
            assert refused, env.log[at - 1]
            assert isinstance(refused[0], StorageError), env.log[at - 1]
            assert refused[0].errno == code
        assert env.open_paths == [], (env.log[at - 1], env.open_paths)
        if (root / NAME).exists():
            check_left(root / NAME, model, CONFIG)
            go_on(root / NAME, model, CONFIG)


def test_after_a_failed_fsync_nothing_is_acknowledged(tmp_path: Path) -> None:
    env = FaultEnv(str(tmp_path))
    log = Log.open(str(tmp_path / NAME), CONFIG, env=env)
    log.append(Record(value=b"kept"))
    env.fault = Fault(1, errno.EIO, frozenset({"sync"}))
    with pytest.raises(StorageError) as raised:
        log.append(Record(value=b"lost"))
    assert raised.value.errno == errno.EIO
    for attempt in (
        lambda: log.append(Record(value=b"refused")),
        log.flush,
        log.roll,
        lambda: log.truncate_to(0),
        lambda: log.delete_records(0),
    ):
        with pytest.raises(LogFailedError, match="open it again"):
            attempt()
    assert log.high_watermark == 1
    assert [record.value for record in log.read(0)] == [b"kept"]  # reading goes on, up to what was acknowledged
    log.close()
    assert env.open_paths == []
    with Log.open(str(tmp_path / NAME), CONFIG) as again:
        assert not again.load_report.was_clean
        assert next(again.records()).value == b"kept"


def test_threads_that_wait_for_one_fsync_all_hear_that_it_failed(tmp_path: Path) -> None:
    class Broken(Env):
        """Its fsync fails once `broken` is set, when all threads wait for it."""

        broken = False

        def operation(self, kind: str, path: str):  # type: ignore[no-untyped-def]
            if kind == "sync" and self.broken:
                raise StorageError("input/output error", path=path, errno=errno.EIO)
            return super().operation(kind, path)

    env = Broken()
    log = Log.open(str(tmp_path / NAME), CONFIG, env=env)
    env.broken = True
    outcomes: list[str] = []

    def work() -> None:
        try:
            log.append(Record(value=b"x"))
            outcomes.append("acknowledged")
        except LogdexError as error:
            outcomes.append(type(error).__name__)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(outcomes) == 8
    assert set(outcomes) <= {"StorageError", "LogFailedError"}
    log.close()
