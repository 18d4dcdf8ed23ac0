"""From PATH and flags to an open store, the same for all commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logdex.cli.options import StoreOptions

if TYPE_CHECKING:
    from logdex.rocketmq.commit_log import CommitLog
    from logdex.rocketmq.dialect import StoreConfig
    from logdex.rocketmq.store import StoreSnapshot


def resolve(store: StoreOptions) -> tuple[StoreConfig, CommitLog]:
    """The store's configuration and its CommitLog; raises what says why PATH is no store that can be read."""
    from logdex.rocketmq.commit_log import CommitLog
    from logdex.rocketmq.geometry import resolve_config
    from logdex.rocketmq.recognise import require_store
    from logdex.rocketmq.store_files import StorePaths

    require_store(store.path)
    config = resolve_config(store.path, **store.geometry())
    log = CommitLog(StorePaths(store.path).commit_log, file_size_bytes=config.mapped_file_size_commit_log)
    return config, log


def open_store(store: StoreOptions) -> StoreSnapshot:
    """The store, opened read-only; a context manager."""
    import logdex

    return logdex.open(store.path, **store.geometry())
