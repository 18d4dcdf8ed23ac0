"""`logdex put` for Kafka paths."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any

from logdex.cli.output import emit, emit_json, note, shown
from logdex.cli.views.input_lines import bytes_of, made_of, objects_of
from logdex.cli.views.kafka.records import RECORDS
from logdex.errors import UsageError
from logdex.io.env import DEFAULT_ENV
from logdex.primitives.text import to_bytes

if TYPE_CHECKING:
    from logdex.kafka.batch.record import Header, Record
    from logdex.kafka.directory.recognise import KafkaPath
    from logdex.kafka.log.log import Log

_AT_ONCE = 1000


def create(path: str, settings: Mapping[str, Any], queue: int | None) -> None:
    """Creates an empty partition. Raises `UsageError` for a `queue`, which records have not."""
    if queue is not None:
        raise UsageError("--queue is a flag of RocketMQ's", hint="leave out --queue")
    _open(path, settings, create=True, hint=f"give {path}/TOPIC-0").close()


def show(
    found: KafkaPath,
    settings: Mapping[str, Any],
    *,
    topic: str | None,
    partition: int | None,
    key: str | None,
    value: str | None,
    header: list[str] | None,
    no_timestamp_check: bool | None,
    file: Iterable[str] | None,
    create: bool,
    as_json: bool,
) -> bool:
    """Appends one record, or one per line, and prints where they are."""
    _require_own(found, topic, partition)
    if file is None and key is None and value is None:
        raise UsageError("put what?", hint="give --value TEXT, or --file JSONL (- for stdin)")
    flags: dict[str, Any] = {"topic": topic, "partition": partition, "key_text": key, "value_text": value}
    flags = {name: each for name, each in flags.items() if each is not None}
    if header is not None:
        flags["headers"] = [_header(text) for text in header]
    if no_timestamp_check:
        settings = {**settings, "message_timestamp_before_max_ms": -1, "message_timestamp_after_max_ms": -1}
    lines = objects_of(file) if file is not None else [(0, dict[str, Any]())]
    records = made_of(lines, flags, RECORDS.names, lambda fields: (fields, _record(fields)))
    with ExitStack() as stack:
        logs: dict[str, Log] = {}
        while some := list(islice(records, _AT_ONCE)):
            by_path: dict[str, list[Record]] = {}
            for fields, record in some:
                by_path.setdefault(_directory(found, fields), []).append(record)
            for path, batch in by_path.items():
                if path not in logs:
                    log = _open(path, settings, create=create, hint="give --topic T --partition N")
                    logs[path] = stack.enter_context(log)
                _append(logs[path], path, batch, as_json)
    return True


def _require_own(found: KafkaPath, topic: str | None, partition: int | None) -> None:
    """Refuses flags that name another partition than the path. What lines of a file name is passed
    over there, so that the output of `cat --json` can be put into another partition."""
    from logdex.kafka.directory.partition_files import partition_name, require_own
    from logdex.kafka.directory.recognise import KafkaPathKind

    if found.kind is KafkaPathKind.PARTITION:
        own = partition_name(found, DEFAULT_ENV)
        require_own(found.path, own.topic, own.partition, topic, partition)


def _header(text: str) -> list[Any]:
    name, separator, value = text.partition("=")
    if not separator:
        raise UsageError(f"the header {text} has no value", hint="give --header NAME=VALUE")
    return [name, to_bytes(value)]


def _record(fields: dict[str, Any]) -> Record:
    from logdex.kafka.batch.record import Record

    headers: list[Header] = []
    for name, value in fields.get("headers", ()):
        is_bytes = value is None or isinstance(value, bytes)
        headers.append((name, value if is_bytes else bytes_of({"value": value}, "value")))
    time_ms = fields.get("timestamp_ms", -1)
    if not isinstance(time_ms, int):
        raise UsageError("timestamp_ms is no number")
    return Record(bytes_of(fields, "key"), bytes_of(fields, "value"), time_ms, tuple(headers))


def _directory(found: KafkaPath, fields: dict[str, Any]) -> str:
    """The directory of a record's partition."""
    from logdex.kafka.directory.recognise import KafkaPathKind
    from logdex.kafka.files.file_names import require_topic_name

    if found.kind is KafkaPathKind.PARTITION:
        return found.path
    if found.kind is not KafkaPathKind.LOG_DIR:
        raise UsageError(f"{found.path} is {found.description}", hint="give its partition's directory")
    if not isinstance(fields.get("topic"), str):
        raise UsageError("which topic?", hint="give --topic T")
    require_topic_name(fields["topic"])
    partition = fields.get("partition", 0)
    if not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
        raise UsageError(f"partition cannot be {json.dumps(partition)[:60]}")
    return f"{found.path}/{fields['topic']}-{partition}"


def _open(path: str, settings: Mapping[str, Any], *, create: bool, hint: str) -> Log:
    from logdex.kafka.files.file_names import parse_partition_dir
    from logdex.kafka.log.log import Log

    if parse_partition_dir(posixpath.basename(DEFAULT_ENV.real_path(path))) is None:
        raise UsageError(f"{path} is not named like a partition", hint=hint)
    if not create and not DEFAULT_ENV.is_dir(path):
        raise UsageError(f"there is no partition {path}", hint="add --create kafka to make it")
    log = Log.open(path, create=create, **settings)
    if log.load_report.cut_bytes:
        cut = next(each for each in log.load_report.actions if each.size_bytes)
        note(
            f"{path} was not closed cleanly, and {log.load_report.cut_bytes} bytes were cut from byte {cut.position} "
            f"of {cut.path} on, as by a broker that starts (logdex recover, before that, keeps what follows damage)"
        )
    return log


def _append(log: Log, path: str, records: list[Record], as_json: bool) -> None:
    """Appends records and prints where they are, once they are on disk."""
    info = log.append(records)
    log.flush()
    topic, _, partition = posixpath.basename(DEFAULT_ENV.real_path(path)).rpartition("-")
    for offset, _ in enumerate(records, info.first_offset):
        if as_json:
            emit_json({"topic": topic, "partition": int(partition), "offset": offset})
        else:
            emit(f"{shown(topic)}/{partition}  offset {offset}")
