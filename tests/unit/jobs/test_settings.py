"""Settings as flags."""

from __future__ import annotations

from pathlib import Path

from logdex.jobs.settings import flag_of, given_flags


def test_settings_become_the_flags_that_give_them() -> None:
    assert flag_of("max_index_num") == "--max-index-num"
    given = {
        "max_index_num": 8,
        "broker_conf": Path("my conf"),
        "message_delay_level": "1s 5s",
        "rocketmq_version": None,
    }
    assert given_flags(given) == " --max-index-num 8 --broker-conf 'my conf' --message-delay-level '1s 5s'"
    assert given_flags({}) == ""
    assert given_flags({"deleted_topics": True, "key_index": False}) == " --deleted-topics"
