"""Where a job runs: in this process or on Spark, with a progress bar on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logdex.cli.output import note
from logdex.cli.progress_bars import progress_bar
from logdex.errors import UsageError
from logdex.jobs.tasks import JOBS_MAX, LocalRunner, threads_of

if TYPE_CHECKING:
    from logdex.jobs.tasks import Runner


class Engine(StrEnum):
    """What runs a job."""

    LOCAL = "local"
    SPARK = "spark"


EngineOption = Annotated[Engine, typer.Option(help="Run in this process or on Spark.")]
JobsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="The number of threads for --engine local; by default the cores, and 1 for up to 256 MiB.",
        min=1,
        max=JOBS_MAX,
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        help="The Spark master for --engine spark, by default local[*], or sc://HOST:PORT for Spark Connect.",
        show_default=False,
    ),
]


def require_spark(engine: Engine, master: str | None) -> None:
    """Raises `UsageError` for a Spark master that no Spark would see."""
    if engine is Engine.LOCAL and master is not None:
        raise UsageError("--master is about --engine spark", hint="give --engine spark, or leave --master out")


@contextmanager
def local_runner(what: str, size_bytes: int, jobs: int | None) -> Iterator[Runner]:
    """As `runner_of`, for this process."""
    with progress_bar(what, size_bytes) as progress:
        yield LocalRunner(progress, threads_of(jobs, size_bytes))


@contextmanager
def runner_of(what: str, size_bytes: int, engine: Engine, master: str | None, jobs: int | None) -> Iterator[Runner]:
    """Returns a runner of tasks during a block. A bar shows its progress from 0 to `size_bytes`.
    `jobs` is the number of threads of the local engine."""
    require_spark(engine, master)
    if engine is Engine.LOCAL:
        with local_runner(what, size_bytes, jobs) as local:
            yield local
        return
    if jobs is not None and jobs > 1:
        raise UsageError("--jobs is about --engine local", hint="give the number of cores in --master, as local[4]")
    with session_of(what, size_bytes, master) as (_, runner):
        yield runner


@contextmanager
def session_of(what: str, size_bytes: int, master: str | None) -> Iterator[tuple[Any, Runner]]:
    """Returns a Spark session during a block, and a runner of tasks on it with a bar as `runner_of`
    has."""
    from logdex.spark import tasks
    from logdex.spark.session import COORDINATING, session

    note("starting Spark, a few seconds")
    starting = session(master or "local[*]", app_name=f"logdex {what}", conf=COORDINATING)
    with starting as spark, progress_bar(what, size_bytes) as progress:
        yield spark, tasks.runner_of(spark, progress)
