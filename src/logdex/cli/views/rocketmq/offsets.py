"""`logdex offsets` for RocketMQ stores."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from logdex.cli.output import note, shown
from logdex.cli.views.offset_rows import OffsetRow, print_offsets, tell_moved, tell_new_group
from logdex.errors import LogInUseError, UsageError
from logdex.primitives.text import to_bytes

if TYPE_CHECKING:
    from logdex.rocketmq.recognise.store_path import StorePath


def show(
    found: StorePath,
    settings: Mapping[str, Any],
    *,
    group: str | None,
    topic: str | None,
    reset_to: str | None,
    time_ms: int | None,
    yes: bool,
    as_json: bool,
) -> bool:
    """Prints the progress of groups, with the offsets after a reset. Returns whether the newest
    offsets could be read."""
    from logdex.io.env import DEFAULT_ENV
    from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager
    from logdex.rocketmq.consuming.progress import behind_the_end, progress_of, reset_target
    from logdex.rocketmq.consuming.source import require_queues
    from logdex.rocketmq.recognise.require_store import require_store
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

    path = require_store(found).path
    with StoreSnapshot(found, **settings) as snapshot:
        require_queues(snapshot, DEFAULT_ENV)
        manager = ConsumerOffsetManager(path, dialect=snapshot.config.dialect)
        wanted = None if topic is None else to_bytes(topic)
        read = manager.read()
        if read.file.remark is not None:
            note(read.file.remark)
        rows = progress_of(snapshot, read, group, wanted)
        if (text := behind_the_end(rows)) is not None:
            note(text)
        if not rows and topic is not None:
            snapshot.require_known(topic)
        if not rows and (group is not None or topic is not None):
            raise UsageError(
                f"{path}: nothing is known of that", hint=f"logdex offsets {shlex.quote(path)} lists what is known"
            )
        if reset_to is not None and group is not None:
            tell_new_group(group, [shown(each) for _, each in read.offsets])
        place = int(reset_to) if reset_to is not None and reset_to.isdecimal() else reset_to
        targets = [None if place is None else reset_target(snapshot, row, place, time_ms) for row in rows]
    tell_moved(reset_to, targets)
    if yes and group is not None and wanted is not None:
        pairs = zip(rows, targets, strict=True)
        _reset(path, manager, group, {(wanted, row.queue_id): at for row, at in pairs if at is not None})
    print_offsets(
        [
            OffsetRow(
                each.group,
                shown(each.topic),
                each.queue_id,
                each.offset,
                each.min_offset,
                each.max_offset,
                each.lag,
                target,
            )
            for each, target in zip(rows, targets, strict=True)
        ],
        names=("queue_id", "min_offset", "max_offset"),
        column="queue",
        nothing="no group has committed offsets",
        as_json=as_json,
    )
    return read.file.remark is None


def _reset(path: str, manager: Any, group: str, offsets: dict[tuple[bytes, int], int]) -> None:
    from logdex.io.env import DEFAULT_ENV
    from logdex.rocketmq.consuming.membership import has_members

    if has_members(path, group, DEFAULT_ENV):
        raise LogInUseError(f"consumers of the group {group} run", path=path, hint="stop them first")
    manager.commit_offsets(group, offsets)
