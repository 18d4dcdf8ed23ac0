"""`logdex message`: one message by its id, the server's or the client's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from logdex.cli.app import PROBLEMS_FOUND, app, epilog
from logdex.cli.options import StoreOptions, store_command
from logdex.cli.output import hint, note
from logdex.cli.views.rocketmq.output import DecompressOption, MessageJsonOption, MessagePrinter
from logdex.cli.views.rocketmq.stores import note_one_file, open_store

if TYPE_CHECKING:
    from logdex.rocketmq.message.stored_message import StoredMessage
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

Found = list[tuple[int, "StoredMessage"]]


@app.command(
    epilog=epilog(
        "logdex message store 7F00000100002A9F0000000000000000",
        "logdex message store 7F00000100002A9F0000000000000000 --json",
        "logdex message store/commitlog/00000000000000000000 7F00000100002A9F0000000000000000",
        notes="The server's MessageID (32 or 56 hexadecimal digits) holds the place in the CommitLog. A client's id "
        "(UNIQ_KEY) is looked up in the IndexFiles and needs its topic.",
    )
)
@store_command
def message(
    store: StoreOptions,
    msg_id: Annotated[str, typer.Argument(metavar="MSGID", help="The message's id.", show_default=False)],
    topic: Annotated[
        str | None, typer.Option(help="The topic, for a client's id (UNIQ_KEY).", show_default=False)
    ] = None,
    decompress: DecompressOption = False,
    as_json: MessageJsonOption = False,
) -> None:
    """Show one message by its id. Exit 0 good, 1 not found or damaged, 2 cannot run."""
    with open_store(store) as snapshot:
        printer = MessagePrinter(snapshot.commit_log, as_json=as_json, decompress=decompress)
        found = _by_place(snapshot, msg_id) if topic is None else _by_unique_key(snapshot, topic, msg_id)
        for at, stored in found:
            printer.print_in_full(stored, at)
    if printer.problems or not found:
        raise typer.Exit(PROBLEMS_FOUND)


def _by_place(snapshot: StoreSnapshot, msg_id: str) -> Found:
    from logdex.errors import MissingFileError
    from logdex.rocketmq.message.message_id import MessageId

    parsed = MessageId.parse(msg_id)
    try:
        return [(parsed.physical_offset, snapshot.look_message(parsed))]
    except MissingFileError as error:
        note(error.message)
        hint("for a client's id (UNIQ_KEY) say its --topic too")
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
