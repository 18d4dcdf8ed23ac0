"""Rebuilds Kafka's derived files: indexes, transaction indexes, producer snapshots, leader epochs,
key indexes."""

from logdex.kafka.rebuild.job import rebuild, rebuild_on, rebuild_settings
from logdex.kafka.rebuild.report import KafkaRebuildReport
from logdex.kafka.rebuild.segment import RebuildSettings

__all__ = ["KafkaRebuildReport", "RebuildSettings", "rebuild", "rebuild_on", "rebuild_settings"]
