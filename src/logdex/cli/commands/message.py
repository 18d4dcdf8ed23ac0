"""`logdex message`: shows one message by its id, the server's or the client's."""

from __future__ import annotations

from typing import Annotated

import typer

from logdex.cli.app import PROBLEMS_FOUND, app, epilog
from logdex.cli.find_view import show
from logdex.cli.options import DecompressOption, PathOptions, path_command
from logdex.cli.rows.row_options import RowOptions


@app.command(
    epilog=epilog(
        "logdex message store 7F00000100002A9F0000000000000000",
        "logdex message store 7F00000100002A9F0000000000000000 --json",
        "logdex message store/commitlog/00000000000000000000 7F00000100002A9F0000000000000000",
        notes="A server's MessageID (32 or 56 hexadecimal digits) contains the physical offset in the CommitLog. A "
        "client's id (UNIQ_KEY) is looked up in the IndexFiles and needs its topic.",
    )
)
@path_command
def message(
    target: PathOptions,
    rows: RowOptions,
    msg_id: Annotated[str, typer.Argument(metavar="MSGID", help="The message's id.", show_default=False)],
    topic: Annotated[
        str | None, typer.Option(help="The topic; required for a client's id (UNIQ_KEY).", show_default=False)
    ] = None,
    decompress: DecompressOption = False,
) -> None:
    """Show one message by its id. Exit 0 good, 1 not found or damaged, 2 cannot run."""
    if not show("message", target, msg_id=msg_id, topic=topic, decompress=decompress, rows=rows):
        raise typer.Exit(PROBLEMS_FOUND)
