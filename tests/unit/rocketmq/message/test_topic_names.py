"""The names that brokers take for topics."""

from __future__ import annotations

import pytest

from logdex.errors import UsageError
from logdex.rocketmq.message.topic_names import require_topic_name


@pytest.mark.parametrize("topic", ["orders", "a-b_c%|9", "t" * 127, "%RETRY%" + "g" * 200, "%DLQ%group"])
def test_names_that_a_broker_takes(topic: str) -> None:
    require_topic_name(topic)


@pytest.mark.parametrize("topic", ["", "a b", "a.b", "a/b", "ü", "t" * 128, "%RETRY%" + "g" * 249, "\udc80"])
def test_names_that_no_broker_takes(topic: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a topic"):
        require_topic_name(topic)
