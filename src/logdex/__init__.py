"""Logdex: RocketMQ's and Kafka's storage engines in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike

    from logdex.io.env import Env
    from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
    from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

__version__ = "0.1.0"

__all__ = ["__version__", "open"]


def open(
    path: str | PathLike[str], *, env: Env | None = None, **settings: Any
) -> StoreSnapshot | LogDirSnapshot | PartitionSnapshot:
    """Opens what is at `path` read-only; a context manager. What it is says what is given:

    - the root of a RocketMQ store, or one CommitLog file: `logdex.rocketmq.snapshot.store_snapshot.StoreSnapshot`,
    - a Kafka log directory: `logdex.kafka.snapshot.log_dir_snapshot.LogDirSnapshot`,
    - a ``topic-N`` directory of Kafka's, or one .log: `logdex.kafka.snapshot.partition_snapshot.PartitionSnapshot`.

    All have `scan(...)`, whose result has `to_arrow()`. `settings` are the broker's, which no file states: of RocketMQ
    ``mapped_file_size_commit_log``, ``mapped_file_size_consume_queue``, ``max_hash_slot_num``, ``max_index_num``,
    ``rocketmq_version``, ``broker_conf``, as `resolve_config` takes them; of Kafka the fields of `LogConfig`, such as
    ``index_interval_bytes``, ``segment_bytes``, ``kafka_version``.

    Raises `NotAStoreError` or `UnsupportedLayoutError` saying what is there instead, `UsageError` for settings of the
    other format. `env` counts or harms what is read, for tests.
    """
    from logdex.formats import find_kafka, refuse_kafka_settings
    from logdex.io.env import DEFAULT_ENV

    if find_kafka(str(path), env=env or DEFAULT_ENV) is not None:
        from logdex.kafka.snapshot.log_dir_snapshot import open_kafka

        return open_kafka(str(path), env=env, **settings)
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

    refuse_kafka_settings(str(path), settings)
    return StoreSnapshot(str(path), env=env, **settings)
