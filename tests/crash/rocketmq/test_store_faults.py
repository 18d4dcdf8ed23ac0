"""A `MessageStore` on a disk that refuses: full, broken, read-only, without descriptors, at any
call."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import LogdexError, LogFailedError, StorageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message, PutMessageStatus
from logdex.testing import CHANGES, Fault, FaultEnv
from tests.crash.rocketmq.store_runs import Model, Run, check_left, check_log, open_store
from tests.examples import every

PARTS = 4
REFUSALS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EROFS)
SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 2048,
    "mapped_file_size_consume_queue": 100,
    "max_hash_slot_num": 3,
    "max_index_num": 6,
    "rocketmq_version": "5.5.0",
}
STEPS = (
    (
        *("put", "batch", "dispatch", "columns", "half", "flush", "delayed", "transaction", "dispatch", "create_topic"),
        *("deliver", "consume", "half", "end", "delayed", "put", "deliver", "consume", "flush", "columns", "put"),
    ),
    (
        *("put", "batch", "dispatch", "columns", "half", "flush", "delayed", "transaction", "dispatch", "consume"),
        *("half", "end", "columns", "put", "expire", "flush", "end", "batch", "put", "dispatch", "consume", "expire"),
        *("half", "put"),
    ),
)
"""Those of each opening. What expires is not delivered."""


def play(root: Path, env: Env, model: Model) -> list[object]:
    """Opens, works, closes, twice. Returns what was refused. After a refusal one more message is
    put, then the store is closed."""
    refused: list[object] = []
    for turn, steps in enumerate(STEPS):
        try:
            store = open_store(root, SIZES, random.Random(5 + turn), env, "sync")
        except LogdexError as error:
            return [*refused, error]
        check_log(root, SIZES, model)
        run = Run(store, model, random.Random(5 + turn), is_sync=True)
        for step in steps:
            try:
                getattr(run, step)()
            except LogdexError as error:
                refused.append(error)
                check_what_comes_next(run, refused)
                break
        refused += run.refused
        for close in (run.leave, store.close):
            try:
                close()
            except LogdexError as error:
                refused.append(error)
    return refused


def check_what_comes_next(run: Run, refused: list[object]) -> None:
    """After a failed write nothing is acknowledged; what else was refused leaves a store that
    works."""
    store = run.store
    if store._core.is_writeable:
        try:
            run.put()
        except LogdexError as error:
            refused.append(error)
        return
    assert store.put_message(Message("T", b"one more")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    for attempt in (store.flush, lambda: store.create_topic("one more")):
        with pytest.raises(LogFailedError, match="open it again"):
            attempt()


def count_calls(folder: Path) -> int:
    """How many calls a run makes to which nothing happens."""
    folder.mkdir()
    env = FaultEnv(str(folder))
    assert play(folder / "store", env, Model()) == []
    return env.count()


def each_refusal(test: Callable[..., None]) -> Callable[..., None]:
    """Runs a test with each error, once and from then on."""
    codes = pytest.mark.parametrize("code", REFUSALS, ids=errno.errorcode.get)
    lasting = pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
    return codes(lasting(test))  # type: ignore[no-any-return]


@each_refusal
def test_refused_at_any_call(tmp_path: Path, code: int, lasting: bool) -> None:
    """Some calls, each with one of the errors."""
    first = REFUSALS.index(code) * 2 + lasting
    for at in range(1 + first, count_calls(tmp_path / "whole") + 1, 8)[::230]:
        refuse(tmp_path / str(at), Fault(at, code, lasting=lasting))


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("part", range(PARTS))
@each_refusal
def test_refused_at_each_call(tmp_path: Path, code: int, lasting: bool, part: int) -> None:
    """Every call, each with one of the errors, or with every one if LOGDEX_TEST_SEEDS is `all`."""
    first = REFUSALS.index(code) * 2 + lasting
    for at in every(8, range(1 + part, count_calls(tmp_path / "whole") + 1, PARTS), first=first):
        refuse(tmp_path / str(at), Fault(at, code, lasting=lasting))
        shutil.rmtree(tmp_path / str(at))


def refuse(folder: Path, fault: Fault) -> None:
    folder.mkdir()
    env, model = FaultEnv(str(folder), fault), Model()
    refused = play(folder / "store", env, model)
    kind, path = env.log[fault.at - 1] if len(env.log) >= fault.at else ("", "")
    try:
        assert refused or not env.hits or kind not in CHANGES  # what cannot be read may be derived anew
        errors = [each for each in refused if isinstance(each, Exception)]
        assert all(isinstance(each, LogdexError) for each in errors)
        if errors:
            assert isinstance(errors[0], StorageError)
            assert errors[0].errno == fault.errno
        assert env.open_paths == []
        if (folder / "store").exists():
            check_left(folder / "store", SIZES, model, random.Random(1))
            with open_store(folder / "store", SIZES, random.Random(1), DEFAULT_ENV, "sync") as store:
                Run(store, model, random.Random(1), is_sync=True).put()
            check_left(folder / "store", SIZES, model, random.Random(1))
    except BaseException as error:
        error.add_note(f"call {fault.at}, {fault.errno}, lasting {fault.lasting}: {kind} {path}; {refused}")
        raise


def test_a_new_file_that_cannot_be_listed_is_listed_later(tmp_path: Path) -> None:
    """The messages in it could not be read for as long as the store was open, and delayed ones were
    never delivered."""
    env, message = FaultEnv(str(tmp_path)), Message("T", bytes(700), queue_id=0, delay_level=1)
    with open_store(tmp_path / "store", SIZES, random.Random(1), env, "sync") as store:
        put, count = store.put_message(message), 1
        while put.is_stored:
            env.fault = Fault(env._matching + 1, errno.EIO, kinds=frozenset(("list_dir",)))
            put = store.put_message(message)
            count += put.is_stored
        assert put.status is PutMessageStatus.CREATE_MAPPED_FILE_FAILED
        env.fault = None
        put = store.put_message(message)
        assert store.look_message_by_offset(put.physical_offset).body == message.body
        assert store.deliver_due(1 << 60) == count + 1
        assert store.stats.delayed_passed_over == 0


def get(store: MessageStore) -> object:
    return store.get_message("T", 0, 0, 100, tags="a || b").phy_offsets


def get_columns(store: MessageStore) -> object:
    return store.get_columns("T", 0, 0, 100, tags="a || b").table


def query(store: MessageStore) -> object:
    return store.query_message("T", "all").phy_offsets


def look(store: MessageStore) -> object:
    return [store.look_message_by_offset(at) for at in (0, 2048)]


READS = (get, get_columns, query, look)


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
def test_refused_reads_of_an_open_store(tmp_path: Path, lasting: bool) -> None:
    """A read raises a typed error or answers right, whichever of its calls is refused. Then puts
    and reads go on."""
    env, message = FaultEnv(str(tmp_path)), Message("T", b"x" * 268, tags="a", keys="all", queue_id=0)
    errors: list[StorageError] = []
    with open_store(tmp_path / "store", SIZES, random.Random(1), env, "sync") as store:
        for _ in range(9):
            assert store.put_message(message).is_stored
        for read in READS:
            assert store.put_message(message).is_stored
            store.dispatch()
            at, was_hit, before = 0, True, len(errors)
            while was_hit:
                at += 1
                env.fault, env.hits, answer = Fault(env._matching + at, errno.EIO, lasting=lasting), 0, None
                try:
                    answer = read(store)
                except StorageError as error:
                    errors.append(error)
                was_hit, env.fault = env.hits > 0, None
                assert answer is None or answer == read(store)
            assert len(errors) > before or not lasting  # what failed once may be read again
        whole = [read(store) for read in READS]
    assert {error.errno for error in errors} == {errno.EIO}
    with open_store(tmp_path / "store", SIZES, random.Random(1), DEFAULT_ENV, "sync") as store:
        assert [read(store) for read in READS] == whole
