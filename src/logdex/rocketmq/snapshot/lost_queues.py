"""Topics that have messages and no ConsumeQueue, as far as few reads show it."""

from __future__ import annotations

from collections.abc import Iterable

from logdex.errors import StoreError
from logdex.io.env import Env
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.files.known_topics import KnownTopics
from logdex.rocketmq.message.message_json import to_text

_FILES_MAX = 64


def lost_queues(root: str, log: CommitLog, topics: Iterable[bytes], env: Env) -> list[str]:
    """Returns a line per topic that is not among `topics`, those with a ConsumeQueue, although the
    first message of a CommitLog file is of it. Reads one message per file, of 64 files at most;
    what they miss, `verify` finds."""
    found: dict[bytes, int] = {}
    step = -(-len(log.files) // _FILES_MAX)
    for file in log.files[::step]:
        try:
            message = log.read_message(file.start_offset, check_crc=False)
        except StoreError:
            continue
        if message.is_queued:
            found.setdefault(message.topic, file.start_offset)
    have = set(topics)
    known = KnownTopics.read(root, env=env)
    lost = ((topic, at) for topic, at in sorted(found.items()) if topic not in have and not known.is_deleted(topic))
    unless = ", unless it was deleted" if known.topics is None else ""
    return [
        f"the topic {to_text(topic)} has messages, one at offset {at}, and no ConsumeQueue: "
        f"logdex rebuild derives it{unless}"
        for topic, at in lost
    ]
