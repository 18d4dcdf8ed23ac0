"""messageDelayLevel from the ConsumeQueues of delayed messages, and what is said where they show
nothing."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from logdex.errors import UsageError
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY
from logdex.primitives.java_hash import java_hash
from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.rebuild import rebuild, rebuild_on
from logdex.rocketmq.settings.store_config import delay_text, parse_delay_levels
from logdex.rocketmq.verify import verify
from logdex.testing.store_builder import make_message
from tests.unit.rocketmq.rebuild.test_job import Serial
from tests.unit.rocketmq.small_stores import CONFIG, START_MS, build

LEVELS = "2s 7s 90s 5m"
SCHEDULE = "consumequeue/SCHEDULE_TOPIC_XXXX"


def delayed(number: int, level: int) -> StoredMessage:
    properties = [(b"DELAY", b"%d" % level), (b"REAL_TOPIC", b"T"), (b"TAGS", b"A")]
    return make_message(
        b"SCHEDULE_TOPIC_XXXX",
        queue_id=level - 1,
        queue_offset=number,
        store_timestamp_ms=START_MS + 777 * number,
        properties=properties,
    )


MESSAGES = [delayed(number, level) for number in range(12) for level in (1, 2, 3, 4)]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return build(tmp_path / "store", MESSAGES, replace(CONFIG, delay_levels_ms=parse_delay_levels(LEVELS)))


def test_the_queues_show_the_levels(store: Path, tmp_path: Path) -> None:
    config = resolve_config(str(store))
    assert config.delay_levels_ms[:4] == parse_delay_levels(LEVELS)
    assert config.delay_levels_ms[4:] == CONFIG.delay_levels_ms[4:]
    assert config.delay_levels_shown == (1, 2, 3, 4)
    assert (
        "messageDelayLevel: level 1 is 2s, level 2 is 7s, level 3 is 90s, level 4 is 5m, as the ConsumeQueues show"
        in config.evidence
    )
    assert verify(store, config).findings == []
    for report in (
        rebuild(str(store), str(tmp_path / "local"), config, sync=False),
        rebuild_on(Serial(), str(store), str(tmp_path / "tasks"), config, sync=False),
    ):
        assert not [line for line in report.assumed if "messageDelayLevel" in line]


def test_levels_that_no_queue_shows_are_said_to_be_guesses(store: Path, tmp_path: Path) -> None:
    shutil.rmtree(store / SCHEDULE / "2")
    shutil.rmtree(store / SCHEDULE / "3")
    config = resolve_config(str(store))
    assert config.delay_levels_shown == (1, 2)
    said = []
    for report in (
        rebuild(str(store), str(tmp_path / "local"), config, sync=False),
        rebuild_on(Serial(), str(store), str(tmp_path / "tasks"), config, sync=False),
    ):
        said += [line for line in report.assumed if line.startswith("messageDelayLevel")]
    assert len(said) == 2
    assert said[0] == said[1]
    assert said[0].startswith("messageDelayLevel level 3 is 10s, level 4 is 30s, as by default")
    assert "--message-delay-level" in said[0]


@pytest.mark.parametrize("stated", [b"5", b"99", b"2147483647"])
def test_a_level_above_the_highest_shows_the_highest(tmp_path: Path, stated: bytes) -> None:
    config = replace(CONFIG, delay_levels_ms=parse_delay_levels(LEVELS))
    messages = [
        make_message(
            b"SCHEDULE_TOPIC_XXXX", queue_id=3, queue_offset=number, properties=[(b"DELAY", stated), (b"TAGS", b"A")]
        )
        for number in range(3)
    ]
    store = build(tmp_path / "store", messages, config)
    found = resolve_config(str(store), max_hash_slot_num=7, max_index_num=12)
    assert found.delay_levels_shown is not None
    assert 4 in found.delay_levels_shown
    assert found.delay_levels_ms[3] == 300_000
    report = rebuild(str(store), str(tmp_path / "out"), found, sync=False)
    assert not [line for line in report.assumed if "messageDelayLevel" in line]


def test_without_delayed_messages_nothing_is_said(tmp_path: Path) -> None:
    store = build(tmp_path / "store", [make_message(queue_offset=number) for number in range(5)])
    config = resolve_config(str(store), max_hash_slot_num=7, max_index_num=12)
    report = rebuild(str(store), str(tmp_path / "out"), config, sync=False)
    assert not [line for line in report.assumed if "messageDelayLevel" in line]


def test_what_is_stated_wins(store: Path, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("messageDelayLevel=1s 3d\n")
    stated = resolve_config(str(store), broker_conf=str(conf))
    assert stated.delay_levels_ms == (1000, 3 * 86_400_000)
    assert stated.delay_levels_shown is None
    flag = resolve_config(str(store), broker_conf=str(conf), message_delay_level="4m")
    assert flag.delay_levels_ms == (240_000,)
    for wrong in ("", "  ", "4", "x"):
        with pytest.raises(UsageError, match="messageDelayLevel"):
            resolve_config(str(store), message_delay_level=wrong)


def test_a_setting_that_was_changed_is_no_finding_and_the_newest_levels_count(store: Path) -> None:
    queue = store / SCHEDULE / "0" / f"{0:020d}"
    data = bytearray(queue.read_bytes())
    for number in range(3):
        entry = CONSUME_QUEUE_ENTRY.struct.unpack_from(data, 20 * number)
        CONSUME_QUEUE_ENTRY.struct.pack_into(data, 20 * number, *entry[:2], entry[2] + 3_600_000)
    queue.write_bytes(data)
    config = resolve_config(str(store))
    assert config.delay_levels_ms[0] == 2000
    report = verify(store, config)
    assert report.findings == []
    notes = [info.message for info in report.infos if info.kind == "delay-levels"]
    assert notes == ["3 entries were written with another messageDelayLevel"]


def test_a_tag_hash_in_place_of_a_delivery_time_is_noted(store: Path) -> None:
    queue = store / SCHEDULE / "0" / f"{0:020d}"
    data = bytearray(queue.read_bytes())
    for number in range(9, 12):
        entry = CONSUME_QUEUE_ENTRY.struct.unpack_from(data, 20 * number)
        CONSUME_QUEUE_ENTRY.struct.pack_into(data, 20 * number, *entry[:2], java_hash(b"A"))
    queue.write_bytes(data)
    config = resolve_config(str(store))
    assert config.delay_levels_ms[0] == 2000
    report = verify(store, config)
    assert report.findings == []
    [note] = [info.message for info in report.infos if info.kind == "delay-tag-hash"]
    assert note.startswith("3 entries hold the hash of the tag in place of the delivery time")
    data[20 * 11 + 19] ^= 1
    queue.write_bytes(data)
    assert [finding.check for finding in verify(store, config).findings] == ["consume-queue-tags-code"]


@pytest.mark.parametrize("bit", range(0, 64, 3))
def test_a_changed_bit_of_a_delivery_time_is_found(store: Path, bit: int) -> None:
    queue = store / SCHEDULE / "1" / f"{0:020d}"
    data = bytearray(queue.read_bytes())
    at = 20 * 11 + 12 + 7 - bit // 8  # the newest entry, which is read first
    data[at] ^= 1 << bit % 8
    queue.write_bytes(data)
    config = resolve_config(str(store))
    assert config.delay_levels_ms[1] == 7000
    assert [finding.check for finding in verify(store, config).findings] == ["consume-queue-tags-code"]


def test_damaged_queues_show_nothing_and_raise_nothing(store: Path) -> None:
    for queue in (store / SCHEDULE).iterdir():
        for file in queue.iterdir():
            file.write_bytes(bytes(byte ^ 0x5A for byte in file.read_bytes()))
    assert resolve_config(str(store)).delay_levels_shown == ()


def test_text_of_a_delay() -> None:
    assert [delay_text(ms) for ms in (0, 1000, 90_000, 120_000, 7_200_000, 86_400_000)] == [
        "0s", "1s", "90s", "2m", "2h", "1d",
    ]  # fmt: skip
