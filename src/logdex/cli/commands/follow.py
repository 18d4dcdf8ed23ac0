"""`logdex follow`: follows a live master into a store of one's own."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from logdex.cli.app import app, epilog
from logdex.cli.options import JsonOption, PathOptions, address_command
from logdex.cli.output import emit, emit_json, human_size
from logdex.cli.progress_bars import progress_bar
from logdex.cli.stopping import SIGNAL_EXIT, stopped_by_signals
from logdex.errors import UsageError
from logdex.formats import FORMATS
from logdex.formats.format import FollowJob
from logdex.primitives.shown import counted


@app.command(
    epilog=epilog(
        "logdex follow 127.0.0.1:10912 --output copy --until-caught-up",
        "logdex follow 127.0.0.1:10912 --output tapped --tap --until-caught-up --json",
        notes="Follows a RocketMQ master as one of its slaves, byte for byte, and derives ConsumeQueues and IndexFiles "
        "as it goes. The store is synced before the master is told that it has the bytes. It goes on after a lost "
        "connection, and where the store ends if it is run again. A store that is not the beginning of the master's "
        "log is refused. Other commands may read the store meanwhile. Ctrl-C ends it, with a store that was closed "
        "cleanly. The port is the broker's haListenPort; nothing on it is encrypted. With --json the last line is the "
        "report.",
    )
)
@address_command
def follow(
    target: PathOptions,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="DIR", help="The store to write.", show_default=False)
    ],
    tap: Annotated[
        bool, typer.Option("--tap", help="Acknowledge nothing: no producer waits for this copy or counts on it.")
    ] = False,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin a new store with the master's first message (the default).")
    ] = False,
    from_last_file: Annotated[
        bool, typer.Option("--from-last-file", help="Begin a new store with the master's last file, as a broker does.")
    ] = False,
    from_offset: Annotated[
        int | None,
        typer.Option("--from-offset", min=0, help="Begin a new store at the start of one of the master's files."),
    ] = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="End when the store has what the master had at the beginning.")
    ] = False,
    retry_seconds: Annotated[
        float | None,
        typer.Option("--retry-seconds", min=0, help="Give up when the master is out of reach for so long."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Follow a live RocketMQ master into a store. Exit 0 caught up, 1 another log, 2 cannot run,
    130 Ctrl-C."""
    job = _prepare(target, output, tap, _start_of(from_start, from_last_file, from_offset), retry_seconds)
    try:
        with stopped_by_signals(job) as signals, progress_bar("follow", 0) as progress:
            job.run(until_caught_up=until_caught_up, progress=progress)
    finally:
        job.close()
        _print(job.report, as_json)
    if signals:
        raise typer.Exit(SIGNAL_EXIT + signals[0])


def _start_of(from_start: bool, from_last_file: bool, from_offset: int | None) -> Any:
    if from_start + from_last_file + (from_offset is not None) > 1:
        raise UsageError("--from-start, --from-last-file and --from-offset exclude each other", hint="give one of them")
    if from_last_file:
        return "last-file"
    return "first" if from_offset is None else from_offset


def _prepare(target: PathOptions, output: str, tap: bool, start: Any, retry_for_s: float | None) -> FollowJob:
    (prepare,) = (each.follow for each in FORMATS.values() if each.follow is not None)
    return prepare(target.path, output, target.settings, tap=tap, start=start, retry_for_s=retry_for_s)


def _print(report: Any, as_json: bool) -> None:
    if as_json:
        emit_json(report.to_json())
        return
    emit(f"{report.path}: followed {report.master} from offset {report.start_offset} to {report.end_offset}")
    lost = counted(report.reconnects, "lost connection")
    emit(f"  {counted(report.messages, 'message')}, {human_size(report.bytes)}, {lost}, {report.seconds:.1f} s")
    emit(f"  acknowledged up to offset {report.acknowledged}" + (", as a tap does" if report.tap else ""))
