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


def register(spark: SparkSession, *, filter_pushdown: bool = True) -> None:
    """Registers the formats `rocketmq_store` and `kafka_log` with a session, classic or Connect.

    Spark finds them by itself where Logdex is installed beside PySpark. But it does not push
    filters down to Python sources unless the session's setting
    spark.sql.python.filterPushdown.enabled is true. `filter_pushdown` sets it.
    """
    for source in source_classes().values():
        spark.dataSource.register(source)
    if filter_pushdown:
        spark.conf.set(PUSHDOWN, "true")
