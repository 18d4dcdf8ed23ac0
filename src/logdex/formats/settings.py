"""The settings of all formats together, as keyword arguments of functions that take any path."""

from __future__ import annotations

from logdex.kafka.settings.log_config import LogSettings
from logdex.rocketmq.settings.store_settings import StoreSettings


class OpenSettings(StoreSettings, LogSettings, total=False):
    """The settings of `logdex.open`."""


class SqlOptions(OpenSettings, total=False):
    """The keyword arguments of `logdex.sql.connect`: settings, and how tables are read."""

    control: bool
    isolation: str | None
    time_slack_ms: int | None
    decompress: bool


class RebuildSettings(OpenSettings, total=False):
    """The keyword arguments of `logdex.spark.rebuild` beside its own: settings, and what only a
    rebuild takes."""

    key_index: bool
    deleted_topics: bool
    time_zone: str | None
