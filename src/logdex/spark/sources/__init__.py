"""The Spark sources `rocketmq_store` and `kafka_log`: logs as DataFrames, without a broker.

Options and Spark's filters become a read plan of the format; its splits are read in Python workers,
and their Arrow columns are converted to Spark's. Nothing here knows a byte of a format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from logdex.spark.sources.source import LogSource

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def source_classes() -> dict[str, type[LogSource]]:
    """Returns the sources by the names that their formats have in the registry."""
    from logdex.spark.sources.kafka.source import KafkaLogSource
    from logdex.spark.sources.rocketmq.source import RocketmqStoreSource

    return {"rocketmq": RocketmqStoreSource, "kafka": KafkaLogSource}


def register(spark: SparkSession, *, filter_pushdown: bool = False) -> None:
    """Registers the formats `rocketmq_store` and `kafka_log` with a session, classic or Connect.

    Spark finds them by itself where Logdex is installed beside PySpark. It does not push filters
    down to Python sources unless the session's setting spark.sql.python.filterPushdown.enabled is
    true. `filter_pushdown` sets it.

    Do that only if each DataFrame that is loaded is used with one filter. Spark 4.3 keeps one plan
    of a read per loaded DataFrame, the last one into which it pushed a filter. An action with no
    filter, and the other side of a union or a join of the same DataFrame, then read by the filter
    of the last one, and rows are missing without a word. Options such as `topic` are always safe.
    """
    for source in source_classes().values():
        spark.dataSource.register(source)
    if filter_pushdown:
        spark.conf.set(PUSHDOWN, "true")
