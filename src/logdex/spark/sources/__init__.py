"""The Spark sources `rocketmq_store` and `kafka_log`: logs as DataFrames, without a broker.

Options and Spark's filters become a read plan of the format; its splits are read in Python workers,
and their Arrow columns are converted to Spark's. Nothing here knows a byte of a format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession, *, filter_pushdown: bool = True) -> None:
    """Registers the formats `rocketmq_store` and `kafka_log` with a session, classic or Connect.

    Spark finds them by itself where Logdex is installed beside PySpark. But it does not push filters
    down to Python sources unless the session's setting spark.sql.python.filterPushdown.enabled is
    true. `filter_pushdown` sets it.
    """
    from logdex.spark.sources.kafka.source import KafkaLogSource
    from logdex.spark.sources.rocketmq.source import RocketmqStoreSource

    for source in (RocketmqStoreSource, KafkaLogSource):
        spark.dataSource.register(source)
    if filter_pushdown:
        spark.conf.set(PUSHDOWN, "true")
