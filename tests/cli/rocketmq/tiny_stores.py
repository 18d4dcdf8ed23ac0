"""Stores of some KiB with every file that a store can have, so small that each byte of them can be
harmed in turn."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from logdex.layout.rocketmq import (
    MESSAGE_MAGIC_V2,
    SYS_FLAG_BORN_HOST_V6,
    SYS_FLAG_COMPRESSED,
    SYS_FLAG_PREPARED,
    SYS_FLAG_STORE_HOST_V6,
)
from logdex.primitives.host import Host
from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.message.stored_message import StoredMessage, encode_message
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.testing.store_builder import write_commit_log
from tests.unit.rocketmq.small_stores import START_MS, message

CONFIG = StoreConfig(
    mapped_file_size_commit_log=800,
    mapped_file_size_consume_queue=20 * 4,
    max_hash_slot_num=5,
    max_index_num=10,
    dialect=Dialect.of("5.5.0"),
)
_V6 = Host(bytes(15) + b"\1", 10911)

_CONFIG_FILES = {
    "consumerOffset.json": b'{\n\t"offsetTable":{\n\t\t"TopicA@G":{0:3,1:1}\n\t}\n}',
    "consumerOffset.json.bak": b'{\n\t"offsetTable":{\n\t\t"TopicA@G":{0:2}\n\t}\n}',
    "delayOffset.json": b'{\n\t"offsetTable":{1:4,\n\t\t2:2\n\t}\n}',
    "subscriptionGroup.json": b'{\n\t"subscriptionGroupTable":{\n\t\t"G":{\n\t\t\t"consumeEnable":true,'
    b'\n\t\t\t"groupName":"G",\n\t\t\t"retryMaxTimes":16\n\t\t}\n\t}\n}',
    "topics.json": b'{\n\t"dataVersion":{\n\t\t"counter":-7\n\t},\n\t"topicConfigTable":{\n\t\t"TopicA":{'
    b'\n\t\t\t"perm":6,\n\t\t\t"attributes":{},\n\t\t\t"topicName":"\\u0054opicA"\n\t\t}\n\t}\n}',
}


def _sized(one: StoredMessage) -> StoredMessage:
    return replace(one, size_bytes=len(encode_message(one)))


def _usual() -> list[StoredMessage]:
    return [
        message(0, keys="hot k-0", tag="A"),
        message(1, keys="hot", tag="B"),
        message(0, queue_id=1, keys="k-2"),
        message(2, body=zlib.compress(b"compressed " * 9), sys_flag=SYS_FLAG_COMPRESSED, keys="hot"),
        message(1, queue_id=1, unique=False),
        message(3, keys="hot k-5"),
        message(4, keys="k-6", tag="A"),
    ]


def _odd() -> list[StoredMessage]:
    hosts_v6: dict[str, Any] = {
        "born_host": _V6,
        "store_host": _V6,
        "sys_flag": SYS_FLAG_BORN_HOST_V6 | SYS_FLAG_STORE_HOST_V6,
    }
    return [
        _sized(replace(message(0, keys="hot k-0", tag="A"), **hosts_v6)),
        message(1, keys="hot", sys_flag=SYS_FLAG_PREPARED),
        _sized(replace(message(1, keys="hot", tag="B"), magic=MESSAGE_MAGIC_V2)),
        message(0, topic=b"\xff\xfe %RETRY%", keys="hot"),
        message(2, body=b"", keys="k-4"),
        message(3, body=b"no zlib", sys_flag=SYS_FLAG_COMPRESSED),
    ]


def _build(root: Path, messages: list[StoredMessage], checkpoint: StoreCheckpoint) -> tuple[Path, str, str]:
    write_commit_log(str(root), messages, CONFIG.mapped_file_size_commit_log)
    rebuild(str(root), str(root), CONFIG, in_place=True, sync=False)
    (root / "checkpoint").write_bytes(checkpoint.pack())
    (root / "lock").write_bytes(b"lock")
    (root / "rocksdbstore").mkdir()
    (root / "config").mkdir()
    for name, data in _CONFIG_FILES.items():
        (root / "config" / name).write_bytes(data)
    return root, "TopicA", "hot"


def usual(root: Path) -> tuple[Path, str, str]:
    """A cleanly ended store with two CommitLog files and two IndexFiles; with a topic and a key to
    ask for."""
    built = _build(root, _usual(), StoreCheckpoint(START_MS, START_MS, START_MS, 800, 800, 800))
    (root / "abort.bak").write_bytes(b"")
    return built


def odd(root: Path) -> tuple[Path, str, str]:
    """A store whose broker was killed, of messages that are seldom seen: IPv6, PREPARED, a long
    topic length, a topic that is no UTF-8, an empty body, one that is not what its flag says."""
    built = _build(root, _odd(), StoreCheckpoint(START_MS, START_MS, START_MS))
    (root / "abort").write_bytes(b"12345")
    return built


TINY: dict[str, Callable[[Path], tuple[Path, str, str]]] = {"tiny-usual": usual, "tiny-odd": odd}
