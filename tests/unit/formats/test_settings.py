"""Settings are typed keyword arguments, and a misspelt one is named with the nearest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import logdex
import logdex.sql
from logdex.errors import UsageError
from logdex.formats.settings import RebuildSettings, SqlOptions
from logdex.kafka import Log, LogConfig
from logdex.kafka.columns.encode_columns import BatchSettings
from logdex.kafka.log.append_columns import ColumnOptions
from logdex.kafka.settings.log_config import LogSettings
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.rocketmq import MessageStore, StoreOptions, StoreSnapshot
from logdex.rocketmq.message_store.options import MessageStoreSettings
from logdex.rocketmq.settings.store_settings import StoreSettings


def names_of(declaration: Any) -> set[str]:
    return set(declaration.__annotations__)


def test_the_typed_arguments_are_the_settings() -> None:
    assert names_of(LogSettings) == {each.name for each in fields(LogConfig)}
    options = {each.name for each in fields(StoreOptions)} - {"store_host", "born_host"}
    assert names_of(MessageStoreSettings) == options | names_of(StoreSettings)
    assert names_of(ColumnOptions) == names_of(BatchSettings) - {"compression"} | {"piece_bytes"}
    both = names_of(LogSettings) | names_of(StoreSettings)
    assert names_of(SqlOptions) - both == {"control", "isolation", "time_slack_ms", "decompress"}
    assert names_of(RebuildSettings) - both == {"key_index", "deleted_topics", "time_zone"}


CALLS: dict[str, tuple[Callable[..., object], str, str, str]] = {
    "open a store": (logdex.open, "store", "max_indx_num", "max_index_num"),
    "open a log directory": (logdex.open, "logs", "index_interval_byte", "index_interval_bytes"),
    "open a partition": (logdex.open, "logs/orders-0", "kafka_versoin", "kafka_version"),
    "StoreSnapshot": (StoreSnapshot, "store", "broker_cnf", "broker_conf"),
    "LogDirSnapshot": (LogDirSnapshot, "logs", "segment_byte", "segment_bytes"),
    "Log": (Log.open, "new-0", "flsuh", "flush"),
    "MessageStore": (MessageStore.open, "new", "flsuh", "flush"),
    "sql": (logdex.sql.connect, "logs", "isolatoin", "isolation"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_misspelt_setting_is_named_with_the_nearest(
    call: str, golden_store: Any, golden_log: Any, tmp_path: Path
) -> None:
    function, where, misspelt, nearest = CALLS[call]
    (tmp_path / "store").symlink_to(golden_store("tiny-5.5.0"))
    (tmp_path / "logs").symlink_to(golden_log("tiny-broker"))
    with pytest.raises(UsageError, match=rf"unknown setting: {misspelt} \(did you mean {nearest}\?\)"):
        function(tmp_path / where, **{misspelt: 1})
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "new-0").exists()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"max_message_size": "1 MB"}, "max_message_size is '1 MB'"),
        ({"mapped_file_size_commit_log": "1G"}, "mapped_file_size_commit_log is '1G' .give a whole number"),
        ({"flush": True}, "flush is True"),
    ],
)
def test_a_value_of_another_type_is_refused(settings: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=told):
        MessageStore.open(tmp_path / "store", **settings)
