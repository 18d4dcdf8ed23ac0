"""`logdex.spark.rebuild`: rebuilds the indexes of any format in parallel on Spark.

Each format has its own rebuild job (see `logdex.formats`); this module passes Spark's runner to it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Unpack

from logdex.formats import detect, format_of, refuse_other_settings
from logdex.formats.settings import RebuildSettings
from logdex.io.path_look import StrPath
from logdex.jobs.reports import Progress, RebuildReport
from logdex.jobs.settings import require_known
from logdex.spark.tasks import runner_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rebuild(
    spark: SparkSession,
    store: StrPath,
    output: StrPath | None = None,
    *,
    in_place: bool = False,
    sync: bool = True,
    progress: Progress | None = None,
    **settings: Unpack[RebuildSettings],
) -> RebuildReport:
    """Rebuilds the indexes of `store` from its logs on `spark`.

    `store` is a RocketMQ store (its ConsumeQueues and IndexFiles are rebuilt), or a Kafka log
    directory, partition or .log file (its indexes, producer snapshots and leader epochs are
    rebuilt). The files are byte-identical to those of `logdex.rocketmq.rebuild.rebuild` and
    `logdex.kafka.rebuild.rebuild`. All workers must see `store` and `output` (by default
    ``STORE-rebuilt``) under these paths.

    `settings` are the keyword arguments of `logdex.open`; for Kafka also ``key_index=True``, which
    builds key indexes too. `in_place` writes beside the logs and keeps what is replaced under a
    dated name; leave out `output` then. `progress` takes the (messages, bytes) scanned so far, and
    is called from another thread. Raises what the local rebuild raises, `UsageError` for settings
    of the other format, and `EnvironmentProblem` if Spark fails.
    """
    require_known(settings, RebuildSettings)
    found = detect(store)
    given = {name: value for name, value in settings.items() if value is not None and value is not False}
    refuse_other_settings(found, given)
    if output is None and not in_place:
        output = f"{found.path}-rebuilt"
    target = None if output is None else os.fspath(output)
    job = format_of(found).rebuild(found, given, target, in_place=in_place, sync=sync)
    return job.run_on(runner_of(spark, progress), "spark")
