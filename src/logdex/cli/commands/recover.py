"""`logdex recover`: makes a clean log from a crashed or damaged one, and reports every byte that is
not in it."""

from __future__ import annotations

from typing import Annotated

import typer

from logdex.cli.app import DONE_BUT_LOSSY, app, ends_with, epilog
from logdex.cli.engines import JobsOption, local_runner
from logdex.cli.find_view import find, note_unfinished, view_of
from logdex.cli.options import JsonOption, NoSpaceCheckOption, NoSyncOption, PathOptions, output_of, path_command
from logdex.cli.output import emit_json, note
from logdex.formats import format_of
from logdex.io.env import Env


@app.command(
    epilog=epilog(
        "logdex recover store --output recovered",
        "logdex recover logs --output recovered --json",
        notes="For RocketMQ stores and CommitLog files, and for Kafka's log directories, partitions and .log files. "
        "The output must be new or empty. It receives every whole message, and every batch with a valid checksum, "
        "including those after damage, with unchanged bytes and offsets. In a CommitLog, placeholder messages of the "
        "topic LOGDEX_LOST take the place of what is lost. With --json there is one line per range of bytes that is "
        "not in the new log, and the report as the last line.",
    )
)
@path_command
def recover(
    target: PathOptions,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="DIR", help="Where to write the new log.", show_default=False),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Write into the log's own directory; what is replaced is kept.")
    ] = False,
    no_sync: NoSyncOption = False,
    no_space_check: NoSpaceCheckOption = False,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recover a crashed or damaged log into a clean one. Exit 0 nothing lost, 2 cannot run, 3 done
    but lossy."""
    written_to = output_of("recover", target.path, output, in_place=in_place)
    found = find(target)
    is_whole = in_place or note_unfinished(found)
    env = Env(check_space=not no_space_check)
    job = format_of(found).recover(found, target.settings, written_to, in_place=in_place, sync=not no_sync, env=env)
    if in_place:
        note(f"writes a new log in {target.path}; existing files are kept under dated names")
    with local_runner("recover", job.size_bytes, jobs) as runner:
        report = job.run(runner)
    if report.lossy or not is_whole:
        ends_with(DONE_BUT_LOSSY)
    if as_json:
        for skipped in report.skipped:
            emit_json(skipped.to_json())
        emit_json(report.to_json())
    else:
        view_of(found.format, "recover").print_report(report, job.output)
    if report.lossy or not is_whole:
        raise typer.Exit(DONE_BUT_LOSSY)
