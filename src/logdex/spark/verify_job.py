"""`logdex.spark.verify`: checks a store or a log directory of any format in parallel on Spark."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Unpack

from logdex.formats import detect, format_of, refuse_other_settings
from logdex.formats.settings import OpenSettings
from logdex.io.env import DEFAULT_ENV
from logdex.io.path_look import StrPath, path_text
from logdex.jobs.findings import FINDINGS_MAX, VerifyReport
from logdex.jobs.reports import Progress
from logdex.jobs.settings import require_known
from logdex.spark.tasks import runner_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def verify(
    spark: SparkSession,
    path: StrPath,
    *,
    max_findings: int = FINDINGS_MAX,
    checks: Collection[str] | None = None,
    progress: Progress | None = None,
    **settings: Unpack[OpenSettings],
) -> VerifyReport:
    """Checks what is at `path` on `spark` in parallel: the partitions of a Kafka log directory, or
    the parts of a RocketMQ store's CommitLog, which one more task puts together. All workers must
    see it under this path, whose absolute form the report has. Raises `MissingFileError` if one
    does not.

    The report is that of ``logdex verify``. ``spark.createDataFrame(report.to_arrow())`` is a
    DataFrame of its findings. `settings` are the keyword arguments of `logdex.open`. Raises what
    the local `verify` raises, `UsageError` for settings of the other format, and
    `EnvironmentProblem` if Spark fails.
    """
    require_known(settings, OpenSettings)
    found = detect(DEFAULT_ENV.real_path(path_text(path)))  # workers have working directories of their own
    given = {name: value for name, value in settings.items() if value is not None}
    refuse_other_settings(found, given)
    runner = runner_of(spark, progress)
    report = format_of(found).verify(found, given, max_findings=max_findings, checks=checks, runner=runner)
    report.engine, report.tasks = "spark", runner.tasks
    return report
