"""A real broker takes over a store with delayed messages and transactions of `MessageStore`, and
gives it back: each delayed message is delivered once, and both agree which transactions are
pending."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify import verify
from tests.interop.rocketmq.engines import VERSIONS
from tests.interop.rocketmq.scenarios import run_peer
from tests.interop.rocketmq.test_ping_pong import SIZES

pytestmark = [pytest.mark.needs_java, pytest.mark.slow, pytest.mark.timeout(600)]

GEOMETRY = ("--commitlog", "65536", "--cq", "20", "--slots", "100", "--max-index", "10000")
OWN_SIZES = {**SIZES, "mapped_file_size_commit_log": 65536, "max_index_num": 10000}
HALF = "RMQ_SYS_TRANS_HALF_TOPIC"


def require_sound(store: Path, version: str) -> None:
    report = verify(str(store), StoreConfig(**OWN_SIZES, dialect=Dialect.of(version)))
    assert [str(finding) for finding in report.findings] == []


def delivered(store: MessageStore) -> list[bytes]:
    store.dispatch()
    found = [message for queue in range(4) for message in store.get_message("ours", queue, 0, 1000).messages]
    return sorted(message.body for message in found if b"DELAY" in message.properties)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_goes_on_with_what_is_delayed_or_pending(version: str, peers_dir: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    with MessageStore.open(root, rocketmq_version=version, background=False, **OWN_SIZES) as store:
        for number in range(12):
            body = b"delayed %02d" % number
            assert store.put_message(Message("ours", body, tags="paid", delay_level=1 + number % 3)).is_stored
        store.dispatch()
        [first, *_] = store.get_message("SCHEDULE_TOPIC_XXXX", 0, 0).messages
        assert store.deliver_due(first.store_timestamp_ms + 1000) >= 1
        halves = [store.put_half(Message("ours", body)) for body in (b"committed", b"rolled back", b"pending")]
        assert store.end_transaction(halves[0], commit=True).is_stored
        assert store.end_transaction(halves[1], commit=False).is_stored
    require_sound(root, version)
    run_peer(peers_dir, version, "RunBroker", "--dir", root, "--messages", "3", geometry=GEOMETRY)
    with MessageStore.open(root, rocketmq_version=version, background=False, **OWN_SIZES) as store:
        assert store.load_report.was_clean
        assert delivered(store) == [b"delayed %02d" % number for number in range(12)]
        assert store.deliver_due(1 << 50) == 0
        again = store.get_message(HALF, 0, 3, 1000).messages
        assert {message.body for message in again if message.properties[b"REAL_TOPIC"] == b"ours"} == {b"pending"}
        [pending] = store.pending_transactions()
        assert pending.body == b"pending"
        assert store.end_transaction(pending, commit=True).is_stored
        assert store.pending_transactions() == []
        for level in (1, 2):
            store.put_message(Message("ours", b"more %d" % level, delay_level=level))
    require_sound(root, version)
    run_peer(peers_dir, version, "RunBroker", "--dir", root, "--messages", "3", geometry=GEOMETRY)
    with MessageStore.open(root, rocketmq_version=version, background=False, **OWN_SIZES) as store:
        assert [body for body in delivered(store) if body.startswith(b"more")] == [b"more 1", b"more 2"]
        assert len(delivered(store)) == 14
        assert store.pending_transactions() == []
    require_sound(root, version)
