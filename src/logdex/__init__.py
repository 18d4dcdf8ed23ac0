"""Logdex: RocketMQ's and Kafka's storage engines in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike

    from logdex.io.env import Env
    from logdex.rocketmq.store import StoreSnapshot

__version__ = "0.1.0"

__all__ = ["__version__", "open"]


def open(path: str | PathLike[str], *, env: Env | None = None, **geometry: Any) -> StoreSnapshot:
    """Opens what is at `path` read-only: the root of a RocketMQ store. A context manager.

    `geometry` takes the broker's settings, which no file states, as `resolve_config` does:
    ``mapped_file_size_commit_log``, ``mapped_file_size_consume_queue``, ``max_hash_slot_num``, ``max_index_num``,
    ``rocketmq_version``, ``broker_conf``. Raises `NotAStoreError` or `UnsupportedLayoutError` saying what is there
    instead. `env` counts or harms what is read, for tests.
    """
    from logdex.rocketmq.store import StoreSnapshot

    return StoreSnapshot(str(path), env=env, **geometry)
