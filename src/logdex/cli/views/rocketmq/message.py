"""`logdex message` for RocketMQ stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from logdex.cli.output import hint, note
from logdex.cli.rows.printer import print_end
from logdex.cli.rows.row_options import RowOptions
from logdex.cli.views.rocketmq.cat import end_facts
from logdex.cli.views.rocketmq.messages import MessagePrinter, note_one_file
from logdex.errors import CorruptError, MissingFileError

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

    messages, problems, log_end = Found(), list[str](), None
    with StoreSnapshot(found, **settings) as snapshot:
        printer = MessagePrinter(snapshot.commit_log, rows, decompress=decompress)
        try:
            if topic is None:
                messages = _by_place(snapshot, msg_id, problems)
            else:
                messages = _by_unique_key(snapshot, topic, msg_id, problems)
                log_end = None if note_one_file(snapshot) else end_facts(snapshot.valid_end)
            for at, stored in messages:
                printer.print_in_full(stored, at)
        except CorruptError as error:
            print_end(rows, "message", count=0, is_complete=False, problems=[error.message], log_end=None)
            raise
        problems += printer.problems
        is_complete = bool(messages) and not problems
        facts = {"is_complete": is_complete, "problems": problems, "log_end": log_end}
        print_end(rows, "message", count=printer.printed, **facts)
    return is_complete


def _by_place(snapshot: StoreSnapshot, msg_id: str, problems: list[str]) -> Found:
    from logdex.rocketmq.message.message_id import MessageId

    parsed = MessageId.parse(msg_id)
    try:
        return [(parsed.physical_offset, snapshot.look_message(parsed))]
    except MissingFileError as error:
        _tell(problems, error.message)
        hint("a client's id (UNIQ_KEY) needs --topic")
        return []


def _by_unique_key(snapshot: StoreSnapshot, topic: str, msg_id: str, problems: list[str]) -> Found:
    result = snapshot.query_message(topic, msg_id, scan_missing=True)
    for problem in result.unreadable:
        _tell(problems, problem.message)
    if not result.messages:
        _tell(problems, f"no message of {topic} has this id")
        hint("a server's MessageID is looked up without --topic")
    return list(zip(result.phy_offsets, result.messages, strict=True))


def _tell(problems: list[str], told: str) -> None:
    problems.append(told)
    note(told)
