"""`logdex message` for RocketMQ stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from logdex.cli.output import hint, note
from logdex.cli.rows.row_options import RowOptions
from logdex.cli.views.rocketmq.messages import MessagePrinter, note_one_file

if TYPE_CHECKING:
    from logdex.rocketmq.message.stored_message import StoredMessage
    from logdex.rocketmq.recognise.store_path import StorePath
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

Found = list[tuple[int, "StoredMessage"]]


def show(
    found: StorePath, settings: Mapping[str, Any], *, msg_id: str, topic: str | None, decompress: bool, rows: RowOptions
) -> bool:
    """Prints the message with a server's MessageID or, if `topic` is given, with a client's id.
    Returns whether it was found and could be read."""
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

    with StoreSnapshot(found, **settings) as snapshot:
        printer = MessagePrinter(snapshot.commit_log, rows, decompress=decompress)
        messages = _by_place(snapshot, msg_id) if topic is None else _by_unique_key(snapshot, topic, msg_id)
        for at, stored in messages:
            printer.print_in_full(stored, at)
    return bool(messages) and not printer.problems


def _by_place(snapshot: StoreSnapshot, msg_id: str) -> Found:
    from logdex.errors import MissingFileError
    from logdex.rocketmq.message.message_id import MessageId

    parsed = MessageId.parse(msg_id)
    try:
        return [(parsed.physical_offset, snapshot.look_message(parsed))]
    except MissingFileError as error:
        note(error.message)
        hint("a client's id (UNIQ_KEY) needs --topic")
        return []


def _by_unique_key(snapshot: StoreSnapshot, topic: str, msg_id: str) -> Found:
    result = snapshot.query_message(topic, msg_id, scan_missing=True)
    note_one_file(snapshot)
    for problem in result.unreadable:
        note(problem.message)
    if not result.messages:
        note(f"no message of {topic} has this id")
        hint("a server's MessageID is looked up without --topic")
    return list(zip(result.phy_offsets, result.messages, strict=True))
