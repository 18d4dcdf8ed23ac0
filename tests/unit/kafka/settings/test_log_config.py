"""Settings of a log: what is taken, what is refused."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import UsageError
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import LogConfig, parse_kafka_version


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("compact", ("compact",)), ("compact, delete", ("compact", "delete")), (("delete",), ("delete",)), ("", ())],
)
def test_cleanup_policies_as_the_broker_writes_them(given: Any, wanted: tuple[str, ...]) -> None:
    assert LogConfig(cleanup_policy=given).cleanup_policy == wanted


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment_bytes", 0),
        ("segment_bytes", "1048576"),
        ("segment_bytes", None),
        ("index_interval_bytes", -1),
        ("segment_index_bytes", 8),
        ("flush", "always"),
        ("cleanup_policy", ("shrink",)),
        ("cleanup_policy", None),
        ("cleanup_policy", 5),
        ("segment_bytes", True),
        ("segment_ms", None),
        ("retention_bytes", -2),
        ("retention_ms", "1h"),
        ("retention_ms", 1 << 63),
        ("delete_retention_ms", 0.5),
        ("min_compaction_lag_ms", "0"),
        ("producer_id_expiration_ms", -2),
        ("message_timestamp_type", "Now"),
    ],
)
def test_settings_that_no_log_can_have_are_named(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=re.escape(f"{name} is {value!r}")):
        Log.open(str(tmp_path / "events-0"), **{name: value})
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_setting_is_named() -> None:
    wrong: dict[str, Any] = {"segment_byte": 1 << 20}
    with pytest.raises(UsageError, match=r"unknown setting: segment_byte .did you mean segment_bytes"):
        LogConfig(**wrong)
    config = LogConfig(segment_ms=5)
    assert pickle.loads(pickle.dumps(config)) == replace(replace(config, segment_ms=6), segment_ms=5) == config


def test_a_dictionary_is_no_config(tmp_path: Path) -> None:
    config: Any = {"segment_bytes": 1 << 20}
    with pytest.raises(UsageError, match="a config is a LogConfig, not dict"):
        Log.open(tmp_path / "events-0", config)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("record", [Record("text"), Record(value="text"), Record(headers=(("h", 5),))])  # type: ignore[arg-type]
def test_text_and_numbers_are_no_keys_and_values(tmp_path: Path, record: Record) -> None:
    with Log.open(str(tmp_path / "events-0")) as log:
        with pytest.raises(UsageError, match=r"bytes or None, not str|, not a name with bytes or None"):
            log.append(record)
        assert log.append(Record(b"k")).first_offset == 0


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0.8", (0, 8)),
        ("0.8.2.2", (0, 8, 2, 2)),
        ("0.11.0", (0, 11, 0)),
        ("2", (2,)),
        ("3.9.2", (3, 9, 2)),
        ("v3.9.2", (3, 9, 2)),
        ("3.9.2-rc1", (3, 9, 2)),
        ("4.4.0-SNAPSHOT", (4, 4, 0)),
        ("4.99", (4, 99)),
    ],
)
def test_versions_of_brokers(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_kafka_version(text) == numbers
    assert LogConfig(kafka_version=text).kafka_version == text


@pytest.mark.parametrize(
    "text", ["9.9", "5.0.0", "0.7.2", "", "four", "3.x", "3..9", "-1", "3.9 ", "\u0663.9", 3.9, None]
)
def test_unknown_versions_are_refused(text: Any) -> None:
    with pytest.raises(UsageError, match=re.escape(f"kafka version {text!r} is not known (use 0.8 to 4.x")):
        LogConfig(kafka_version=text)


@pytest.mark.parametrize("create", [True, False])
def test_a_file_is_no_partition(tmp_path: Path, create: bool) -> None:
    path = tmp_path / "events-0"
    with Log.open(str(path)) as log:
        log.append(Record(b"k"))
    file = path / f"{0:020d}.log"
    with pytest.raises(UsageError, match=r"\.log is a file, not a directory \(give the partition's: .*/events-0\)"):
        Log.open(str(file), create=create)
    other = tmp_path / "other-0"
    other.write_bytes(b"")
    with pytest.raises(UsageError, match=r"other-0 is a file, not a directory .*such as events-0"):
        Log.open(str(other), create=create)
    assert other.read_bytes() == b""
    assert not (tmp_path / ".lock").exists()
