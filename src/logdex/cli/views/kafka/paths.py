"""Which format PATH is of, for every command that takes both, and refusing the flags of the other one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from logdex.cli.options import StoreOptions
from logdex.errors import UsageError

if TYPE_CHECKING:
    from logdex.kafka.directory.recognise import KafkaPath
    from logdex.kafka.settings.log_config import LogConfig
    from logdex.kafka.snapshot.log_dir_snapshot import KafkaSnapshot
    from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot

Flags = Mapping[str, Any]
"""Values by the flag's name, ``--queue``; None and False: not given."""


def kafka_path(store: StoreOptions, *, rocketmq: Flags | None = None, kafka: Flags | None = None) -> KafkaPath | None:
    """What of Kafka's is at PATH; None for a RocketMQ store or file. Raises what says that it is neither.

    `rocketmq` and `kafka` are a command's own flags that only one format has: `UsageError` for those of the other one,
    and for the other one's geometry flags.
    """
    from logdex.formats import detect
    from logdex.kafka.directory.recognise import KafkaPath
    from logdex.rocketmq.recognise.require_store import require_store

    found = detect(store.path)
    if not isinstance(found, KafkaPath):
        require_store(store.path)
        _refuse(_flags(store.kafka_settings()) | dict(kafka or {}), "Kafka", "a RocketMQ store", store.path)
        return None
    _refuse(_flags(store.geometry()) | dict(rocketmq or {}), "RocketMQ", describe(found), store.path)
    return found


def describe(found: KafkaPath) -> str:
    """``a Kafka log directory``, ``a Kafka partition``, ``a Kafka .log file``."""
    what = found.kind.value
    return f"a Kafka {what} file" if what.startswith(".") else f"a Kafka {what}"


def log_config(store: StoreOptions) -> LogConfig:
    """The Kafka settings that were given, else the broker's defaults."""
    from logdex.kafka.settings.log_config import LogConfig

    return LogConfig(**store.kafka_settings())


def directory_of(found: KafkaPath) -> str:
    """The directory that a path's files lie in: its own, or that of the partition whose file it is."""
    from logdex.kafka.directory.partition_files import partition_directory
    from logdex.kafka.directory.recognise import KafkaPathKind

    return found.path if found.kind is KafkaPathKind.LOG_DIR else partition_directory(found)


def open_snapshot(found: KafkaPath, store: StoreOptions) -> KafkaSnapshot:
    """What is at a Kafka path, opened read-only; a context manager."""
    from logdex.kafka.snapshot.log_dir_snapshot import open_kafka

    return open_kafka(found.path, log_config(store))


def the_partition(snapshot: KafkaSnapshot, topic: str | None, partition: int | None) -> PartitionSnapshot:
    """The one partition that is meant; `UsageError` says what to add."""
    scan = snapshot.scan(topic=topic, partition=partition)
    if len(scan.partitions) == 1:
        return scan.partitions[0]
    missing = "--topic T --partition N" if topic is None else "--partition N"
    raise UsageError("which partition?", hint=f"say {missing}; logdex info {snapshot.path} lists them")


def _flags(settings: Flags) -> dict[str, Any]:
    return {"--" + name.replace("_", "-"): value for name, value in settings.items()}


def _refuse(flags: Flags, whose: str, what: str, path: str) -> None:
    given = [flag for flag, value in flags.items() if value is not None and value is not False]
    if given:
        words = " and ".join(given)
        verb = "are flags" if len(given) > 1 else "is a flag"
        raise UsageError(f"{words} {verb} of {whose}'s, and {path} is {what}", hint=f"leave out {words}")
