"""Placeholders are whole messages of any length, which no queue and no index gets an entry of."""

from __future__ import annotations

import pytest

from logdex.rocketmq.message.stored_message import StoredMessage, decode_message
from logdex.rocketmq.recover.placeholder import (
    LOST_TOPIC,
    PLACEHOLDER_SIZE_MAX,
    PLACEHOLDER_SIZE_MIN,
    placeholder_parts,
    placeholder_sizes,
)


def placeholder(size: int) -> StoredMessage:
    before, behind = placeholder_parts(1 << 33, size, 1_700_000_000_000)
    data = before + bytes(size - len(before) - len(behind)) + behind
    message, decoded = decode_message(data)
    assert decoded == len(data) == size
    return message


@pytest.mark.parametrize("size", [92, 101, 102, 103, 5000, PLACEHOLDER_SIZE_MAX])
def test_whole_messages(size: int) -> None:
    message = placeholder(size)
    assert LOST_TOPIC.startswith(message.topic)
    assert (message.topic == LOST_TOPIC) == (size >= 102)
    assert (message.physical_offset, message.store_timestamp_ms) == (1 << 33, 1_700_000_000_000)
    assert not message.is_queued
    assert (message.keys, message.unique_key, message.properties_raw, message.queue_offset) == ([], None, b"", 0)
    assert not any(message.body)


@pytest.mark.parametrize(
    "size", [92, 183, PLACEHOLDER_SIZE_MAX - 1, PLACEHOLDER_SIZE_MAX + 1, 7 * PLACEHOLDER_SIZE_MAX + 5]
)
def test_sizes_fill_a_range(size: int) -> None:
    sizes = placeholder_sizes(size)
    assert sum(sizes) == size
    assert PLACEHOLDER_SIZE_MIN <= min(sizes) <= max(sizes) <= min(sizes) + 1
    assert max(sizes) <= PLACEHOLDER_SIZE_MAX
