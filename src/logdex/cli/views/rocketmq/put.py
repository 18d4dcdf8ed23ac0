"""`logdex put` for RocketMQ stores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from logdex.cli.output import emit, emit_json, note, shown
from logdex.cli.views.input_lines import bytes_of, made_of, objects_of
from logdex.cli.views.rocketmq.messages import MESSAGES
from logdex.errors import LogdexError, LogFailedError, UsageError

if TYPE_CHECKING:
    from logdex.rocketmq.message_store.message_store import MessageStore
    from logdex.rocketmq.message_store.put.message import Message
    from logdex.rocketmq.recognise.store_path import StorePath

_AT_ONCE = 1000
_PLAIN = ("flag", "sys_flag", "born_timestamp_ms", "born_host", "reconsume_times")
_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("queue_id", "delay_level", "flag", "sys_flag", "born_timestamp_ms", "reconsume_times"), int),
    "tags": str,
    "born_host": str,
    "keys": (str, list),
}
"""What a line may state, by field."""
_OWN_PROPERTIES = ("TAGS", "KEYS", "DELAY")


def create(path: str, settings: Mapping[str, Any], queue: int | None) -> None:
    """Creates an empty store. Raises `UsageError` if no new topic has the `queue`, so that no store
    is left behind."""
    from logdex.rocketmq.message_store.message_store import MessageStore
    from logdex.rocketmq.message_store.options import StoreOptions

    count = StoreOptions().default_topic_queue_nums
    if queue is not None and queue >= count:
        raise UsageError(
            f"a new topic has the queues 0 to {count - 1}, not {queue}", hint="create it with more: create_topic"
        )
    MessageStore.open(path, **settings).close()


def show(
    found: StorePath,
    settings: Mapping[str, Any],
    *,
    topic: str | None,
    queue: int | None,
    body: str | None,
    tags: str | None,
    keys: list[str] | None,
    delay_level: int | None,
    file: Iterable[str] | None,
    create: bool,
    as_json: bool,
) -> bool:
    """Puts one message, or one per line, and prints where they are."""
    from logdex.rocketmq.message_store.message_store import MessageStore
    from logdex.rocketmq.recognise.require_store import require_store

    flags = {"topic": topic, "queue_id": queue, "body_text": body, "tags": tags, "keys": keys}
    flags = {name: value for name, value in {**flags, "delay_level": delay_level}.items() if value is not None}
    if file is None and body is None:
        raise UsageError("put what?", hint="give --body TEXT, or --file JSONL (- for stdin)")
    lines = objects_of(file) if file is not None else [(0, dict[str, Any]())]
    messages = made_of(lines, flags, (*MESSAGES.names, "delay_level"), _message)
    with MessageStore.open(require_store(found).path, create=False, **settings) as store:
        report = store.load_report
        for remark in report.config_remarks:
            note(remark)
        if report.cut_reason is not None:
            note(
                f"the store was not closed cleanly, and its log was cut at {report.log_end_offset}: {report.cut_reason}"
            )
        while some := list(islice(messages, _AT_ONCE)):
            _put(store, some, as_json)
    return True


def _message(fields: dict[str, Any]) -> Message:
    from logdex.rocketmq.message.topic_names import require_topic_name
    from logdex.rocketmq.message_store.put.message import Message

    if not isinstance(fields.get("topic"), str):
        raise UsageError("which topic?", hint="give --topic T")
    require_topic_name(fields["topic"])
    properties = fields.get("properties") or {}
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in properties.values()):
        raise UsageError(f"the properties {json.dumps(properties)[:60]} are no texts by name")
    for name, kind in _KINDS.items():
        if name in fields and (not isinstance(fields[name], kind) or isinstance(fields[name], bool)):
            raise UsageError(f"{name} cannot be {json.dumps(fields[name])[:60]}")
    if not all(isinstance(key, str) for key in fields.get("keys") or ()):
        raise UsageError("keys are texts")
    more = {name: fields[name] for name in _PLAIN if name in fields}
    return Message(
        fields["topic"],
        bytes_of(fields, "body") or b"",
        tags=fields.get("tags"),
        keys=fields.get("keys") or (),
        properties={name: value for name, value in properties.items() if name not in _OWN_PROPERTIES},
        queue_id=fields.get("queue_id"),
        delay_level=fields.get("delay_level", 0),
        **more,
    )


def _put(store: MessageStore, messages: list[Message], as_json: bool) -> None:
    """Puts messages and prints where they are, once they are on disk."""
    results = []
    refused: LogdexError | None = None
    for message in messages:
        try:
            result = store.put_message(message)
        except UsageError as error:
            refused = error
            break
        if not result.is_stored:
            told = f"a message was not taken: {result.status.value}; {result.remark}"
            refused = LogFailedError(told, path=store.path)
            break
        results.append(result)
    store.flush_log()
    for result in results:
        place = {"topic": shown(result.topic), "queue_id": result.queue_id, "queue_offset": result.queue_offset}
        place |= {"physical_offset": result.physical_offset, "size_bytes": result.size_bytes, "msg_id": result.msg_id}
        if as_json:
            emit_json(place)
        else:
            emit(
                f"{shown(result.topic)}/{result.queue_id}  offset {result.queue_offset}  at {result.physical_offset}  "
                f"{result.size_bytes} B  {result.msg_id}"
            )
    if refused is not None:
        raise refused
