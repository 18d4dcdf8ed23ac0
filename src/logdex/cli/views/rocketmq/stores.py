"""From PATH and flags to an open store, the same for all commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logdex.cli.options import StoreOptions
from logdex.cli.output import hint, note

if TYPE_CHECKING:
    from logdex.errors import GeometryError
    from logdex.rocketmq.commit_log.commit_log import CommitLog
    from logdex.rocketmq.settings.store_config import StoreConfig
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot


def resolve(store: StoreOptions) -> tuple[StoreConfig, CommitLog]:
    """The store's configuration and its CommitLog; raises what says why PATH is no store that can be read."""
    from logdex.rocketmq.commit_log.commit_log import CommitLog
    from logdex.rocketmq.geometry.resolve import resolve_config
    from logdex.rocketmq.recognise.require_store import require_store

    require_store(store.path)
    config = resolve_config(store.path, **store.geometry())
    log = CommitLog.of_store(store.path, file_size_bytes=config.mapped_file_size_commit_log)
    return config, log


def resolve_in_any_case(store: StoreOptions) -> tuple[StoreConfig, GeometryError | None]:
    """The store's configuration for a command that can do without the IndexFiles, and what is wrong where those leave
    their geometry open: then it is the default one."""
    from logdex.rocketmq.geometry.resolve import resolve_in_any_case
    from logdex.rocketmq.recognise.require_store import require_store

    require_store(store.path)
    return resolve_in_any_case(store.path, **store.geometry())


def note_one_file(snapshot: StoreSnapshot) -> bool:
    """Says of one CommitLog file that the answer is from a scan, and where that stopped if not at a good end; whether
    it is of all that there is. Says nothing of a store."""
    if not snapshot.commit_log.is_one_file:
        return True
    note(f"{snapshot.root} is one CommitLog file, without an index: it was scanned")
    tail = snapshot.log_tail()
    if not tail.is_clean:
        note(f"the log ends at offset {tail.end_offset} ({tail.end}): {tail.reason}")
        hint(f"logdex verify {snapshot.root} names every such place")
    return tail.is_clean


def open_store(store: StoreOptions) -> StoreSnapshot:
    """The RocketMQ store, opened read-only; a context manager."""
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

    return StoreSnapshot(store.path, **store.geometry())
