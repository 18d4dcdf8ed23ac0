"""Prints RocketMQ's messages, one per line, as text or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logdex.cli.output import emit, emit_json, hint, human_time, note, shown, shown_start
from logdex.errors import CorruptError

if TYPE_CHECKING:
    from logdex.rocketmq.commit_log.commit_log import CommitLog
    from logdex.rocketmq.message.stored_message import StoredMessage
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot


class MessagePrinter:
    """Prints messages of one log in one way. `problems` counts the bodies that could not be
    decompressed."""

    def __init__(self, log: CommitLog, *, as_json: bool, decompress: bool = False) -> None:
        self.problems = 0
        self._log = log
        self._as_json = as_json
        self._decompress = decompress or not as_json

    def print(self, message: StoredMessage, physical_offset: int) -> None:
        """Prints one line: the message at `physical_offset`."""
        body = self._body(message, physical_offset) if self._decompress else message.body
        if self._as_json:
            from logdex.rocketmq.message.message_json import message_to_json

            emit_json(message_to_json(message, physical_offset, body=body))
        else:
            emit(_line(message, physical_offset, body))

    def print_in_full(self, message: StoredMessage, physical_offset: int) -> None:
        """Prints all fields of the message at `physical_offset`; as text, one line per field."""
        if self._as_json:
            self.print(message, physical_offset)
            return
        from logdex.rocketmq.message.message_json import message_to_json

        body = self._body(message, physical_offset)
        fields = message_to_json(message, physical_offset)
        for name in ("born_timestamp_ms", "store_timestamp_ms"):
            fields[name] = f"{fields[name]}  {human_time(fields[name])}"
        del fields["body"], fields["properties"]
        width = max(map(len, fields))
        for name, value in fields.items():
            emit(f"{name:<{width}}  {', '.join(value) if isinstance(value, list) else '-' if value is None else value}")
        for property_name, text in message.properties.items():
            emit(f"{'property':<{width}}  {shown(property_name)} = {shown(text)}")
        emit(f"{'body':<{width}}  {shown(body)}")

    def _body(self, message: StoredMessage, physical_offset: int) -> bytes:
        from logdex.layout.rocketmq import SYS_FLAG_COMPRESSED

        if not message.sys_flag & SYS_FLAG_COMPRESSED:
            return message.body
        from logdex.rocketmq.message.body import decompress_body

        try:
            path, position = self._log.place_of(physical_offset)
            return decompress_body(message, path=path, position=position)
        except CorruptError as error:
            self.problems += 1
            note(f"{error.message}; it is shown as stored, in the message at offset {physical_offset}")
            return message.body


def _line(message: StoredMessage, physical_offset: int, body: bytes) -> str:
    parts = [
        human_time(message.store_timestamp_ms),
        f"{shown(message.topic)}/{message.queue_id}",
        f"offset {message.queue_offset}",
        f"at {physical_offset}",
        f"{message.size_bytes} B",
    ]
    if message.tags is not None:
        parts.append(f"tags={shown(message.tags)}")
    if message.keys:
        parts.append(f"keys={','.join(map(shown, message.keys))}")
    if message.unique_key is not None:
        parts.append(f"id={shown(message.unique_key)}")
    return "  ".join([*parts, shown_start(body)])


def note_one_file(snapshot: StoreSnapshot) -> bool:
    """Reports that an answer about one CommitLog file is from a scan, and where the scan stopped if
    the log does not end cleanly there. Prints nothing for a store.

    Returns whether the answer covers the whole log.
    """
    if not snapshot.commit_log.is_one_file:
        return True
    note(f"{snapshot.root} is one CommitLog file, without an index: it was scanned")
    end = snapshot.valid_end
    if not end.is_clean:
        note(f"the log ends at offset {end.offset} ({end.kind.value}): {end.reason}")
        hint(f"logdex verify {snapshot.root} lists all damage")
    return end.is_clean
