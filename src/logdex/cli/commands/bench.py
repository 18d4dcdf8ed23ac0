"""`logdex bench`: measures how fast this machine reads, rebuilds and searches a store or a Kafka
log."""

from __future__ import annotations

from typing import Annotated

import typer

from logdex.cli.app import app, epilog
from logdex.cli.figures import Figure
from logdex.cli.find_view import find, view_of
from logdex.cli.options import JsonOption, PathOptions, path_command
from logdex.cli.output import emit, emit_json, human_size, table
from logdex.primitives.shown import counted


@app.command(
    epilog=epilog(
        "logdex bench store",
        "logdex bench store --json",
        "logdex bench logs",
        notes="Measures a scan with CRC checks, a rebuild, and look-ups by key; for Kafka also decoding, and "
        "look-ups by offset and time instead. Each figure is the better of two runs, so files are in the page "
        "cache as far as they fit. The rebuild is written to a temporary folder and removed. Nothing is "
        "written to the store.",
    )
)
@path_command
def bench(
    target: PathOptions,
    seed: Annotated[int, typer.Option(help="Seed of the random choice of messages to look up.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Measure how fast this machine scans, rebuilds and looks up messages. Takes about a minute at
    most."""
    import random
    import tempfile

    found, figures = find(target), []
    with tempfile.TemporaryDirectory(prefix="logdex-bench-") as folder:
        for figure in view_of(found.format, "bench").measure(found, target.settings, random.Random(seed), folder):
            figures.append(figure)
            if as_json:
                emit_json(figure.to_json())
    if not as_json:
        _print(figures)


def _print(figures: list[Figure]) -> None:
    emit("On this machine, in one process, the better of two runs each:")
    rows = [
        (
            figure.name,
            counted(figure.count, "message" if figure.size_bytes else "look-up"),
            f"{figure.seconds:.3f} s",
            f"{figure.count / figure.seconds:,.0f}/s",
            f"{human_size(int(figure.size_bytes / figure.seconds))}/s" if figure.size_bytes else "",
        )
        for figure in figures
    ]
    table(rows, right=(1, 2, 3, 4))
