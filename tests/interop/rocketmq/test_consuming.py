"""A real broker and its consumer on a store whose offsets `Consumer` committed, and the other way
round."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from tests.interop.rocketmq.engines import VERSIONS
from tests.interop.rocketmq.programs import Program
from tests.interop.rocketmq.scenarios import GEOMETRY
from tests.interop.rocketmq.test_ping_pong import SIZES, require_sound
from tests.unit.rocketmq.consuming.stores import consumer, read_all

pytestmark = [pytest.mark.needs_java, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_consumer_goes_on_where_the_other_stopped(version: str, peers_dir: Path, tmp_path: Path) -> None:
    program = Program(peers_dir, version, "ConsumeStore", tmp_path)
    root = tmp_path / "store"
    with MessageStore.open(root, rocketmq_version=version, **SIZES) as store:
        for number in range(40):
            assert store.put_message(Message("orders", b"%d" % number, tags="ours")).is_stored
        assert store.wait_dispatched(60)
        with consumer(store) as member:
            done = {message.body.decode() for _ in range(5) for message in member.poll(3)}
            member.commit()
            [lost, *_] = member.poll(5)  # not committed, so the broker's consumer gets it
    assert len(done) == 15
    later = lost.body.decode()
    run = ("--dir", root, "--group", "G", "--topic", "orders", "--messages", 10, "--later", later, *GEOMETRY)
    lines = [line.split() for line in program.run(*run)]
    expected = {str(number) for number in range(40)} - done | {f"real-{number}" for number in range(10)}
    assert sorted(body for *_, body in lines) == sorted(expected)  # each once
    assert [times for *_, times, body in lines if body == later] == ["1"]
    require_sound(root, version)
    offsets = ConsumerOffsetManager(root)
    assert sum(offsets.query_offsets("G", "orders").values()) == 50
    assert offsets.query_offset("G", "%RETRY%G", 0) == 1
    with MessageStore.open(root, rocketmq_version=version, **SIZES) as store, consumer(store) as member:
        assert store.wait_dispatched(60)
        assert read_all(member) == []
        for number in range(50, 55):
            store.put_message(Message("orders", b"%d" % number))
        assert store.wait_dispatched(60)
        assert sorted(read_all(member)) == list(range(50, 55))
        member.commit()
    lines = [line.split() for line in program.run(*run[:6], *GEOMETRY)]
    assert lines == []


def test_what_is_sent_back_comes_to_the_brokers_consumer(peers_dir: Path, tmp_path: Path) -> None:
    program = Program(peers_dir, "5.5.0", "ConsumeStore", tmp_path)
    root = tmp_path / "store"
    with MessageStore.open(root, **SIZES) as store:
        for number in range(4):
            store.put_message(Message("orders", b"%d" % number))
        assert store.wait_dispatched(60)
        with consumer(store) as member:
            for message in member.poll(4):
                member.reconsume_later(message, delay_level=1)
            member.commit()
    lines = program.run("--dir", root, "--group", "G", "--topic", "orders", *GEOMETRY)
    assert sorted(line.split()[2:] for line in lines) == [["1", str(number)] for number in range(4)]
