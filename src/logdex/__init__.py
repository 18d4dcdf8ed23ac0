"""Logdex: RocketMQ's and Kafka's storage engines in Python."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Unpack

if TYPE_CHECKING:
    from os import PathLike

    from logdex import errors as errors
    from logdex import kafka as kafka
    from logdex import rocketmq as rocketmq
    from logdex.formats.settings import OpenSettings
    from logdex.io.env import Env
    from logdex.kafka.settings.log_config import LogSettings
    from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
    from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
    from logdex.rocketmq.settings.store_settings import StoreSettings
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

__version__ = "0.1.0"

__all__ = ["__version__", "open", "open_kafka", "open_log_dir", "open_partition", "open_store"]
_PACKAGES = ("errors", "kafka", "rocketmq")
"""Imported when they are first asked for as attributes."""


if not TYPE_CHECKING:  # with it, type checkers would take any name

    def __getattr__(name: str) -> Any:
        if name not in _PACKAGES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted((*__all__, *_PACKAGES))


def open(
    path: str | PathLike[str], *, env: Env | None = None, **settings: Unpack[OpenSettings]
) -> StoreSnapshot | LogDirSnapshot | PartitionSnapshot:
    """Opens what is at `path` read-only.

    The result is a context manager. Its class depends on what is there:

    - the root of a RocketMQ store, or one CommitLog file:
      `logdex.rocketmq.StoreSnapshot`,
    - a Kafka log directory: `logdex.kafka.LogDirSnapshot`,
    - a ``topic-N`` directory of Kafka, or one .log file:
      `logdex.kafka.PartitionSnapshot`.

    `open_store` and `open_kafka` do the same for one format, `open_log_dir` and `open_partition`
    for one of Kafka's two kinds, so that type checkers know the class.

    All have `scan(...)`, whose result has `to_arrow()`. `settings` are settings of the broker that
    no file states: the keys of `logdex.rocketmq.settings.store_settings.StoreSettings`, such as
    ``max_index_num`` or ``rocketmq_version``, or the fields of `logdex.kafka.LogConfig`, such as
    ``index_interval_bytes`` or ``kafka_version``. Tests pass an `env` that counts or fails reads.

    Warns with `UnfinishedPublicationWarning` of a directory in which a rebuild or recovery was
    killed while it replaced files. Raises `NotAStoreError` or `UnsupportedLayoutError`, which state
    what is there instead, and `UsageError` for settings of the other format and for unknown ones.
    """
    from logdex.formats import detect, format_of, refuse_other_settings
    from logdex.io.env import DEFAULT_ENV
    from logdex.jobs.journal import warn_of_unfinished

    env = env or DEFAULT_ENV
    found = detect(path, env=env)
    refuse_other_settings(found, settings)
    form = format_of(found)
    snapshot: StoreSnapshot | LogDirSnapshot | PartitionSnapshot = form.open(found, env=env, **settings)
    warn_of_unfinished(form.unfinished(found, env=env), depth=1)
    return snapshot


def open_store(
    path: str | PathLike[str], *, env: Env | None = None, **settings: Unpack[StoreSettings]
) -> StoreSnapshot:
    """Opens a RocketMQ store's root, or one CommitLog file, read-only, as `open` does. Raises
    `NotAStoreError` or `UnsupportedLayoutError` for anything else."""
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

    return StoreSnapshot(path, env=env, **settings)


def open_kafka(
    path: str | PathLike[str], *, env: Env | None = None, **settings: Unpack[LogSettings]
) -> LogDirSnapshot | PartitionSnapshot:
    """Opens a Kafka log directory, a ``topic-N`` directory or one .log file read-only, as `open`
    does. Raises `NotAStoreError` or `UnsupportedLayoutError` for anything else."""
    from logdex.kafka.snapshot.log_dir_snapshot import open_kafka

    return open_kafka(path, env=env, **settings)


def open_log_dir(
    path: str | PathLike[str], *, env: Env | None = None, **settings: Unpack[LogSettings]
) -> LogDirSnapshot:
    """Opens a Kafka log directory read-only, as `open` does. Raises `NotAStoreError` or
    `UnsupportedLayoutError` for anything else."""
    from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot

    return LogDirSnapshot(path, env=env, **settings)


def open_partition(
    path: str | PathLike[str], *, env: Env | None = None, **settings: Unpack[LogSettings]
) -> PartitionSnapshot:
    """Opens a ``topic-N`` directory of Kafka, or one .log file, read-only, as `open` does. Raises
    `NotAStoreError` or `UnsupportedLayoutError` for anything else."""
    from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot

    return PartitionSnapshot(path, env=env, **settings)
