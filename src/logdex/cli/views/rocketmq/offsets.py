"""`logdex offsets` for RocketMQ stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from logdex.cli.output import emit_json, hint, note, shown, table
from logdex.errors import LogInUseError, UsageError

if TYPE_CHECKING:
    from logdex.rocketmq.consuming.progress import QueueProgress
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
    """Prints the progress of groups, with the offsets after a reset."""
    from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager
    from logdex.rocketmq.consuming.progress import progress_of, reset_target
    from logdex.rocketmq.recognise.require_store import require_store
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

    path = require_store(found).path
    with StoreSnapshot(found, **settings) as snapshot:
        manager = ConsumerOffsetManager(path, dialect=snapshot.config.dialect)
        wanted = None if topic is None else topic.encode("utf-8", "surrogateescape")
        rows = progress_of(snapshot, manager.read(), group, wanted)
        if not rows and (group is not None or topic is not None):
            raise UsageError(f"{path}: nothing is known of that", hint=f"logdex offsets {path} lists what is known")
        place = int(reset_to) if reset_to is not None and reset_to.isdecimal() else reset_to
        targets = [None if place is None else reset_target(snapshot, row, place, time_ms) for row in rows]
    if yes and group is not None and wanted is not None:
        pairs = zip(rows, targets, strict=True)
        _reset(path, manager, group, {(wanted, row.queue_id): at for row, at in pairs if at is not None})
    _print(rows, targets, as_json)
    if reset_to is not None and not yes:
        note("nothing was changed")
        hint("add --yes to reset")
    return True


def _reset(path: str, manager: Any, group: str, offsets: dict[tuple[bytes, int], int]) -> None:
    from logdex.io.env import DEFAULT_ENV
    from logdex.rocketmq.consuming.membership import has_members

    if has_members(path, group, DEFAULT_ENV):
        raise LogInUseError(f"consumers of the group {group} run", path=path, hint="stop them first")
    manager.commit_offsets(group, offsets)


def _print(rows: list[QueueProgress], targets: list[int | None], as_json: bool) -> None:
    if as_json:
        for row, target in zip(rows, targets, strict=True):
            line = {"group": row.group, "topic": shown(row.topic), "queue_id": row.queue_id, "offset": row.offset}
            line |= {"min_offset": row.min_offset, "max_offset": row.max_offset, "lag": row.lag}
            emit_json(line if target is None else {**line, "reset_to": target})
        return
    if not rows:
        note("no group has committed offsets")
        return
    is_reset = any(target is not None for target in targets)
    head = ("group", "topic", "queue", "offset", "from", "to", "lag", *(("reset to",) if is_reset else ()))
    lines = [
        (
            *(row.group, shown(row.topic), str(row.queue_id), "-" if row.offset is None else str(row.offset)),
            *(str(row.min_offset), str(row.max_offset), str(row.lag), *((str(target),) if is_reset else ())),
        )
        for row, target in zip(rows, targets, strict=True)
    ]
    table([head, *lines], right=range(2, 8), indent="")
