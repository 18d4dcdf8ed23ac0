"""Reading a store whose disk refuses: at every operation a typed error, a report of what is
missing, or the right answer; never a shorter answer that claims to be whole."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.errors import LogdexError
from logdex.rocketmq.read.results import GetMessageStatus
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.testing import CHANGES, Fault, FaultEnv
from tests.crash.rocketmq.stores import CONFIG, write_log
from tests.crash.trees import fingerprint
from tests.examples import cases, some

Answer = tuple[Any, bool]
"""What was found, and whether it claims to be all."""


def query_message(store: StoreSnapshot) -> Answer:
    found = store.query_message("TopicA", "k-3")
    return found.phy_offsets, found.complete


def query_message_scanning(store: StoreSnapshot) -> Answer:
    found = store.query_message("TopicB", "k-38", scan_missing=True)
    return found.phy_offsets, found.complete


def get_message(store: StoreSnapshot) -> Answer:
    found = store.get_message("TopicA", 1, 2, 8, tags="A || B")
    return (found.status, found.phy_offsets), True


def scan(store: StoreSnapshot) -> Answer:
    messages = store.scan(topic="TopicB")
    offsets = [offset for offset, _ in messages.items()]
    return offsets, messages.end is not None and messages.end.is_clean


def queues(store: StoreSnapshot) -> Answer:
    return store.queues(), True


OF_QUEUES = [get_message, queues]
"""These answer from the queues that are there; of one whose files are gone they know nothing."""


def is_of_fewer(answer: Any, right: Any) -> bool:
    """Whether an answer is that of a store whose broker has deleted a topic."""
    if isinstance(answer, list):
        return all(queue in right for queue in answer)
    return bool(answer == (GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, ()))


READS = [query_message, query_message_scanning, get_message, scan, queues]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_log(tmp_path_factory.mktemp("reads") / "store")
    rebuild(str(root), str(root), CONFIG, in_place=True, sync=False)
    return root


def read(root: Path, action: Callable[[StoreSnapshot], Answer], env: FaultEnv) -> Answer:
    with logdex.open(root, env=env, max_hash_slot_num=7, max_index_num=60) as store:
        assert isinstance(store, StoreSnapshot)
        return action(store)


@pytest.mark.parametrize(
    ("code", "lasting"),
    cases([(errno.EIO, False), (errno.EIO, True), (errno.EACCES, False), (errno.EMFILE, True)], 2),
    ids=["EIO", "EIO-lasting", "EACCES", "EMFILE-lasting"],
)
@pytest.mark.parametrize("action", READS, ids=lambda action: action.__name__)
def test_refused_at_every_operation(
    root: Path, action: Callable[[StoreSnapshot], Answer], code: int, lasting: bool
) -> None:
    """Every operation, or one of 13 in the default run; each code and way begins with another
    one."""
    before = fingerprint(root)
    clean = FaultEnv(str(root))
    right, whole = read(root, action, clean)
    assert whole
    assert right
    assert clean.open_paths == []
    assert clean.count(CHANGES) == 0
    refused = 0
    for at in some(range(1, clean.count() + 1), 59, first=code + 5 * lasting):
        env = FaultEnv(str(root), Fault(at, code, lasting=lasting))
        try:
            answer, whole = read(root, action, env)
        except LogdexError:
            refused += 1
        else:
            assert answer == right or not whole, clean.log[at - 1]
        assert env.hits
        assert env.open_paths == [], clean.log[at - 1]
    assert refused
    assert fingerprint(root) == before


@pytest.mark.parametrize("action", READS, ids=lambda action: action.__name__)
def test_files_that_vanish_between_listing_and_opening(root: Path, action: Callable[[StoreSnapshot], Answer]) -> None:
    clean = FaultEnv(str(root))
    right, _ = read(root, action, clean)
    kinds = frozenset({"open_read", "list_dir", "size_bytes"})
    for at in range(1, clean.count(kinds) + 1):
        env = FaultEnv(str(root), Fault(at, errno.ENOENT, kinds, lasting=True))
        try:
            answer, whole = read(root, action, env)
        except LogdexError:
            continue
        assert answer == right or not whole or (action in OF_QUEUES and is_of_fewer(answer, right))
