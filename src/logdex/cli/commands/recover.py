"""`logdex recover`: a crashed or damaged log made into a clean one, with a report of every byte that is not in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from logdex.cli.app import DONE_BUT_LOSSY, app, epilog
from logdex.cli.options import JsonOption, NoSyncOption, StoreOptions, output_target, store_command
from logdex.cli.output import emit, emit_json, human_count, human_size, kept_rows, note, note_settings, table
from logdex.cli.progress import progress_bar
from logdex.cli.views.kafka.paths import directory_of, kafka_path, log_config
from logdex.errors import UsageError

if TYPE_CHECKING:
    from logdex.kafka.recover.report import RecoverReport


@app.command(
    epilog=epilog(
        "logdex recover logs --output recovered",
        "logdex recover logs --output recovered --json",
        notes="Kafka's log directories, partitions and .log files. The output must be new or empty. Every batch whose "
        "checksum is right is in it, those behind damage too, with the bytes and offsets that it had. With --json: one "
        "line for each range of bytes that is not in the new log, and the report at last.",
    )
)
@store_command
def recover(
    store: StoreOptions,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="DIR", help="Where to write the new log.", show_default=False),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Write into the log's own directory; what is replaced is kept.")
    ] = False,
    no_sync: NoSyncOption = False,
    as_json: JsonOption = False,
) -> None:
    """Recover a crashed or damaged log into a clean one. Exit 0 nothing lost, 2 cannot run, 3 done but lossy."""
    target = output_target("recover", store.path, output, in_place=in_place)
    found = kafka_path(store)
    if found is None:
        raise UsageError(
            f"{store.path} is a RocketMQ store: recover does not take those yet",
            hint=f"logdex verify {store.path} says what is damaged; logdex rebuild derives queues and indexes anew",
        )
    from logdex.kafka.recover import recover as recover_log
    from logdex.kafka.verify import log_size_bytes

    if in_place:
        target = directory_of(found)
        note(f"writes the log in {store.path} anew; what is there is kept under dated names")
    with progress_bar("recover", log_size_bytes(store.path)) as progress:
        report = recover_log(
            store.path,
            target,
            log_config(store),
            infer_interval=store.index_interval_bytes is None,
            in_place=in_place,
            sync=not no_sync,
            progress=progress,
        )
    if as_json:
        for skipped in report.skipped:
            emit_json(skipped.to_json())
        emit_json(report.to_json())
    else:
        _print(report, target)
    if report.lossy:
        raise typer.Exit(DONE_BUT_LOSSY)


def _print(report: RecoverReport, target: str) -> None:
    emit(
        f"Recovered {human_count(report.messages, 'message')} in {human_count(report.batches, 'batch', 'batches')} "
        f"from {human_size(report.bytes)} of logs, in {report.seconds:.1f} s"
    )
    rows = [
        ("partitions", human_count(report.partitions, "partition")),
        ("files", f"{human_count(report.files, 'file')} in {target}"),
        ("lost", human_size(report.skipped_bytes) if report.lossy else "nothing"),
    ]
    rows += kept_rows(report.kept)
    table(rows)
    for skipped in report.skipped:
        emit(str(skipped))
    note_settings(report.inferred, report.assumed)
    for text in report.notes:
        note(text)
