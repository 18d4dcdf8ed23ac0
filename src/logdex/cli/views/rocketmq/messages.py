"""RocketMQ's messages as rows that commands print."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from logdex.cli.output import emit, hint, human_time, note, shown
from logdex.cli.rows.in_bulk import print_batches
from logdex.cli.rows.printer import RowPrinter
from logdex.cli.rows.row_filter import RowFilter
from logdex.cli.rows.row_options import RowOptions, Values
from logdex.cli.rows.row_text import pairs_text
from logdex.cli.rows.shape import Pair, RowShape
from logdex.cli.rows.value_text import text_of
from logdex.errors import CorruptError, MissingFileError
from logdex.jobs.look_again import removed_meanwhile

if TYPE_CHECKING:
    import pyarrow as pa

    from logdex.arrow_text.cells import Parts
    from logdex.rocketmq.commit_log.commit_log import CommitLog
    from logdex.rocketmq.commit_log.log_end import LogEnd
    from logdex.rocketmq.message.stored_message import StoredMessage
    from logdex.rocketmq.read.message_scan import LogScan
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot


class MessageRow(NamedTuple):
    """A message, its actual place in the log, and its body as it is to be shown."""

    message: StoredMessage
    physical_offset: int
    body: bytes


class MessagePrinter:
    """Prints messages of one log in one way."""

    def __init__(
        self,
        log: CommitLog,
        rows: RowOptions,
        *,
        decompress: bool = False,
        wanted: RowFilter[MessageRow] | None = None,
        limit: int | None = None,
    ) -> None:
        self._bad_bodies: dict[int, str] = {}
        self._log = log
        self._rows = rows
        self._wanted = wanted
        self._printer = RowPrinter(MESSAGES, rows, limit=limit)
        self._decompress = decompress or not rows.shows_stored_bytes

    @property
    def printed(self) -> int:
        """How many messages are printed."""
        return self._printer.printed

    @property
    def problems(self) -> list[str]:
        """What was reported of bodies that cannot be decompressed."""
        return list(self._bad_bodies.values())

    @property
    def is_done(self) -> bool:
        """Whether as many messages are printed as are to be."""
        return self._printer.is_done

    @property
    def scan_limit(self) -> int | None:
        """How many messages there are to read at most, None if that is not known."""
        return None if self._wanted else self._printer.scan_limit

    def wants(self, message: StoredMessage, physical_offset: int) -> bool:
        """Whether the message at `physical_offset` passes the filter, which looks into compressed
        bodies."""
        if not self._wanted:
            return True
        return self._wanted.passes(MessageRow(message, physical_offset, self._body(message, physical_offset)))

    def print(self, message: StoredMessage, physical_offset: int) -> bool:
        """Prints the message at `physical_offset` if it is wanted. Returns whether more may be."""
        if self.wants(message, physical_offset):
            body = self._body(message, physical_offset) if self._decompress else message.body
            self._printer.print(MessageRow(message, physical_offset, body))
        return not self.is_done

    def print_in_bulk(self, scan: LogScan, jobs: int) -> None:
        """Prints all messages of a scan from Arrow batches."""
        prepare = self._with_bodies if self._decompress else None
        self._printer.printed += print_batches(scan, MESSAGES, self._rows, jobs, prepare)

    def _with_bodies(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Returns rows in parts, with decompressed bodies, or stored ones where that fails."""
        from logdex.rocketmq.columns.plain_bodies import decompressed

        return decompressed(batch, self._log.place_of, self._tell_body)

    def print_in_full(self, message: StoredMessage, physical_offset: int) -> None:
        """Prints all fields of the message at `physical_offset`, one line per field, unless the
        options say how messages are printed."""
        rows = self._rows
        if rows.as_json or rows.template is not None or rows.columns is not None:
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
        if rows.values is not Values.NONE:
            emit(f"{'body':<{width}}  {text_of(body, rows.values or Values.TEXT)}")

    def _body(self, message: StoredMessage, physical_offset: int) -> bytes:
        from logdex.layout.rocketmq import SYS_FLAG_COMPRESSED

        if not message.sys_flag & SYS_FLAG_COMPRESSED:
            return message.body
        from logdex.rocketmq.message.body import decompress_body

        try:
            path, position = self._log.place_of(physical_offset)
        except MissingFileError:  # a broker has removed it since the message was read
            path, position = self._log.directory, physical_offset
        try:
            return decompress_body(message, path=path, position=position)
        except CorruptError as error:
            return self._tell_body(error, physical_offset, message.body)

    def _tell_body(self, error: CorruptError, physical_offset: int, stored: bytes) -> bytes:
        """Reports, once, a body that cannot be decompressed. Returns what is shown in its place."""
        if physical_offset not in self._bad_bodies:
            told = f"{error.message}; it is shown as stored, in the message at offset {physical_offset}"
            self._bad_bodies[physical_offset] = told
            note(told)
        return stored


def _line(row: MessageRow) -> list[str]:
    message = row.message
    parts = [
        human_time(message.store_timestamp_ms),
        f"{shown(message.topic)}/{message.queue_id}",
        f"offset {message.queue_offset}",
        f"at {row.physical_offset}",
        f"{message.size_bytes} B",
    ]
    if message.tags is not None:
        parts.append(f"tags={shown(message.tags)}")
    if message.keys:
        parts.append(f"keys={','.join(map(shown, message.keys))}")
    if message.unique_key is not None:
        parts.append(f"id={shown(message.unique_key)}")
    return parts


def _line_parts(batch: pa.RecordBatch, options: RowOptions) -> Parts:
    """Returns the parts of the lines of Arrow rows, as `_line` of messages."""
    from logdex.arrow_text.cells import int_cells
    from logdex.arrow_text.line_cells import shown_cells, shown_list_cells, time_cells

    column = batch.column
    parts = [
        ("", time_cells(column("store_timestamp_ms"))),
        ("  ", shown_cells(column("topic"))),
        ("/", int_cells(column("queue_id"))),
        ("  offset ", int_cells(column("queue_offset"))),
        ("  at ", int_cells(column("physical_offset"))),
        ("  ", int_cells(column("size_bytes"))),
        (" B", shown_cells(column("tags"), prefix="  tags=")),
        ("", shown_list_cells(column("keys"), "  keys=", ",")),
        ("", shown_cells(column("unique_key"), prefix="  id=")),
    ]
    if options.values is not Values.NONE:
        parts.append(("  ", shown_cells(column("body"), null="null", chars_max=options.chars_max)))
    return parts


def _to_json(row: MessageRow) -> dict[str, Any]:
    from logdex.rocketmq.message.message_json import message_to_json

    return message_to_json(row.message, row.physical_offset, body=row.body)


def _properties(row: MessageRow) -> list[Pair]:
    from logdex.rocketmq.message.message_json import to_text

    return [(to_text(name), value) for name, value in row.message.properties.items()]


def _decode(row: MessageRow) -> dict[str, Any] | None:
    from logdex.rocketmq.message.own_topics import decode_message_of

    return decode_message_of(row.message)


def _keys(row: MessageRow) -> bytes | None:
    return b" ".join(row.message.keys) if row.message.keys else None


def _text(value: bytes | None) -> str | None:
    return None if value is None else shown(value)


def _msg_id(row: MessageRow) -> str:
    from logdex.rocketmq.message.message_id import MessageId

    return str(MessageId(row.message.store_host, row.physical_offset))


MESSAGES: RowShape[MessageRow] = RowShape(
    fields=(
        *("topic", "queue_id", "queue_offset", "physical_offset", "size_bytes", "sys_flag", "flag"),
        *("born_timestamp_ms", "born_host", "store_timestamp_ms", "store_host", "reconsume_times"),
        *("prepared_transaction_offset", "body_crc", "body", "properties", "tags", "keys", "unique_key", "msg_id"),
    ),
    line=_line,
    to_json=_to_json,
    contents={"body": lambda row: row.body},
    pairs_field="properties",
    pairs=_properties,
    pairs_are_bytes=False,
    letters={
        "s": lambda row: row.body,
        "v": lambda row: row.body,
        "S": lambda row: len(row.body),
        "k": lambda row: _text(_keys(row)),
        "K": lambda row: -1 if (keys := _keys(row)) is None else len(keys),
        "T": lambda row: row.message.store_timestamp_ms,
        "D": lambda row: human_time(row.message.store_timestamp_ms),
        "t": lambda row: shown(row.message.topic),
        "p": lambda row: row.message.queue_id,
        "o": lambda row: row.message.queue_offset,
        "h": lambda row: pairs_text(_properties(row)),
        "a": lambda row: row.physical_offset,
        "b": lambda row: row.message.born_timestamp_ms,
        "g": lambda row: _text(row.message.tags),
        "i": _msg_id,
        "r": lambda row: row.message.reconsume_times,
        "u": lambda row: _text(row.message.unique_key),
        "z": lambda row: row.message.size_bytes,
    },
    decode=_decode,
    numbers=frozenset(
        [
            *("queue_id", "queue_offset", "physical_offset", "size_bytes", "sys_flag", "flag", "born_timestamp_ms"),
            *("store_timestamp_ms", "reconsume_times", "prepared_transaction_offset", "body_crc"),
        ]
    ),
    flags=frozenset(),
    line_parts=_line_parts,
    line_columns=(
        *("topic", "queue_id", "queue_offset", "physical_offset", "size_bytes", "sys_flag"),
        *("store_timestamp_ms", "body", "tags", "keys", "unique_key"),
    ),
    words=lambda row: row.message.keys,
)
"""How messages are shown. The letters of `--format` stand in docs/guide/readable-output.md."""


def note_one_file(snapshot: StoreSnapshot) -> bool:
    """Reports that an answer about one CommitLog file is from a scan, and where the scan stopped if
    the log does not end cleanly there. Prints nothing for a store.

    Returns whether the answer covers the whole log.
    """
    if not snapshot.commit_log.is_one_file:
        return True
    note(f"{snapshot.root} is one CommitLog file, without an index: it was scanned")
    return tell_damage(snapshot.valid_end, snapshot.root)


def tell_deleted(scan: LogScan) -> list[str]:
    """Reports the files that the broker removed while a scan was to read them. Returns their
    paths."""
    for text in removed_meanwhile(scan.trimmed):
        note(text)
    return scan.trimmed


def tell_damage(end: LogEnd, path: str) -> bool:
    """Reports an end of the log that is not clean. Returns whether it is clean."""
    from logdex.rocketmq.commit_log.log_end import EndKind

    if not end.is_clean:
        note(end.description)
        if end.kind is not EndKind.CUT:
            hint(f"logdex verify {shlex.quote(path)} lists all damage")
    return end.is_clean
