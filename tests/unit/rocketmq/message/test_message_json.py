"""The JSON form of a message: names, order, bytes that are no text."""

from __future__ import annotations

import base64
import json
from typing import Any

from logdex.layout.rocketmq import MESSAGE_MAGIC_V1, SYS_FLAG_STORE_HOST_V6
from logdex.primitives.host import Host
from logdex.rocketmq.message.message_json import message_to_json
from logdex.rocketmq.message.stored_message import StoredMessage

FIELDS = [
    *(
        "topic",
        "queue_id",
        "queue_offset",
        "physical_offset",
        "size_bytes",
        "sys_flag",
        "flag",
        "born_timestamp_ms",
        "born_host",
        "store_timestamp_ms",
        "store_host",
        "reconsume_times",
        "prepared_transaction_offset",
        "body_crc",
        "body",
        "properties",
        "tags",
        "keys",
        "unique_key",
        "msg_id",
    )
]


def stored(**changes: Any) -> StoredMessage:
    values: dict[str, Any] = {
        "size_bytes": 200,
        "magic": MESSAGE_MAGIC_V1,
        "body_crc": 7,
        "queue_id": 3,
        "flag": -1,
        "queue_offset": 11,
        "physical_offset": 4096,
        "sys_flag": 0,
        "born_timestamp_ms": 1,
        "born_host": Host.parse("10.1.2.3:40000"),
        "store_timestamp_ms": 2,
        "store_host": Host.parse("127.0.0.1:10911"),
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
        "body": b"\x00\xffbody",
        "topic": b"orders",
        "properties_raw": b"KEYS\x01a b  a\x02TAGS\x01paid\x02UNIQ_KEY\x01u-1\x02",
    }
    return StoredMessage(**(values | changes))


def test_has_the_fixed_names_and_plain_values() -> None:
    found = message_to_json(stored())
    assert list(found) == FIELDS
    assert json.loads(json.dumps(found)) == found
    assert found["keys"] == ["a", "b", "a"]
    assert (found["tags"], found["unique_key"], found["store_host"]) == ("paid", "u-1", "127.0.0.1:10911")
    assert base64.b64decode(found["body"]) == b"\x00\xffbody"
    assert found["properties"] == {"KEYS": "a b  a", "TAGS": "paid", "UNIQ_KEY": "u-1"}
    assert found["msg_id"] == "7F00000100002A9F0000000000001000"


def test_the_place_in_the_log_goes_before_the_stored_one() -> None:
    found = message_to_json(stored(), 512)
    assert found["physical_offset"] == 512
    assert found["msg_id"].endswith("0000000000000200")


def test_bytes_that_are_no_text_and_what_is_missing() -> None:
    found = message_to_json(stored(topic=b"t\xff", properties_raw=b"a\x01\xfe\x02"), body=b"plain")
    assert (found["topic"], found["properties"]) == ("t\\xff", {"a": "\\xfe"})
    assert (found["tags"], found["keys"], found["unique_key"]) == (None, [], None)
    assert base64.b64decode(found["body"]) == b"plain"


def test_ipv6_store_host() -> None:
    found = message_to_json(stored(store_host=Host.parse("[::1]:10911"), sys_flag=SYS_FLAG_STORE_HOST_V6))
    assert found["store_host"] == "[::1]:10911"
    assert len(found["msg_id"]) == 56
