"""Which engine's files are at a path. Reads names only; says of a path that is nobody's what may be given instead."""

from __future__ import annotations

from collections.abc import Mapping

from logdex.errors import UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.directory.recognise import KafkaPath
from logdex.kafka.directory.recognise import recognise as recognise_kafka
from logdex.kafka.settings.log_config import LogConfig
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.recognise.require_store import require_store

_HINT = (
    "give a RocketMQ store's root (it holds commitlog/), a CommitLog file, a Kafka log directory, a topic-N directory "
    "or a .log file"
)


def find_kafka(path: str, *, env: Env = DEFAULT_ENV) -> KafkaPath | None:
    """What of Kafka's is at `path`; None for a RocketMQ store or a CommitLog file.

    Raises `NotAStoreError` for what is neither, `UnsupportedLayoutError` for a layout of RocketMQ's that is not read.
    """
    if env.is_dir(StorePaths(path).commit_log):
        return None
    found = recognise_kafka(path, env=env)
    if found is None:
        require_store(path, env=env, hint=_HINT)
    return found


def refuse_kafka_settings(path: str, settings: Mapping[str, object]) -> None:
    """`UsageError` for settings of a Kafka log where a RocketMQ store is."""
    foreign = [name for name in settings if name in LogConfig.__dataclass_fields__]
    if foreign:
        raise UsageError(f"{path} is a RocketMQ store, and {foreign[0]} a setting of Kafka's", hint="leave it out")
