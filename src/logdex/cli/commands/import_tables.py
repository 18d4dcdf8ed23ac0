"""`logdex import`: writes Parquet as a new store or log directory."""

from __future__ import annotations

from typing import Annotated

import typer

from logdex.cli.app import DONE_BUT_LOSSY, app, epilog
from logdex.cli.engines import Engine, EngineOption, JobsOption, MasterOption, runner_of
from logdex.cli.options import JsonOption, NoSpaceCheckOption, NoSyncOption, format_option
from logdex.cli.output import emit, emit_json, human_size, note_losses
from logdex.io.env import Env
from logdex.primitives.shown import counted


@app.command(
    name="import",
    epilog=epilog(
        "logdex import orders.parquet --output new-logs --format kafka",
        "logdex import orders.parquet --output new-store --format rocketmq --json",
        notes="PATH is a Parquet file, or a folder with such files, as `logdex export` writes them: topic=NAME in a "
        "folder's name states the topic, else a column does. Columns that are used, all but the topic optional: "
        "partition, offset, key, value, timestamp, headers for Kafka; queueId, body, tags, keys, uniqueKey, "
        "propertyMap, bornTimestamp for RocketMQ.",
    ),
)
def import_tables(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A Parquet file, or a folder with such files.", show_default=False)
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="DIR", help="Where to write; must be empty.", show_default=False)
    ],
    new_format: Annotated[str, format_option("--format")],
    engine: EngineOption = Engine.LOCAL,
    master: MasterOption = None,
    jobs: JobsOption = None,
    no_sync: NoSyncOption = False,
    no_space_check: NoSpaceCheckOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write Parquet as a new store or log directory. Exit 0 good, 2 cannot run, 3 done but
    lossy."""
    from logdex.convert.load import load
    from logdex.convert.load.tables import find_tables

    env = Env(check_space=not no_space_check)
    total = sum(file.size_bytes for file in find_tables(env.real_path(path), env))
    env.require_free(output, total)
    with runner_of("import", total, engine, master, jobs) as runner:
        report = load(path, output, new_format, runner, engine=engine, sync=not no_sync, env=env)
    if as_json:
        emit_json(report.to_json())
    else:
        emit(
            f"Imported {counted(report.messages, 'row')} of {human_size(report.bytes)} to "
            f"{counted(report.files, 'queue or partition', 'queues or partitions')} in {output}, in "
            f"{report.seconds:.1f} s, engine {report.engine}"
        )
    note_losses(report.notes, report.losses, "not imported")
    if report.lossy:
        raise typer.Exit(DONE_BUT_LOSSY)
