"""Builds CommitLogs for tests as the broker lays them out.

All files have one size and end with a blank message, and physical offsets are set.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from logdex.io.env import DEFAULT_ENV, Env
from logdex.layout.rocketmq import BLANK, BLANK_MAGIC, FILE_NAME_DIGITS, MESSAGE_MAGIC_V1
from logdex.primitives.crc import body_crc
from logdex.primitives.host import Host
from logdex.rocketmq.message.properties import format_properties
from logdex.rocketmq.message.stored_message import StoredMessage, encode_message

_HOST = Host(bytes([127, 0, 0, 1]), 10911)


def make_message(
    topic: bytes = b"TopicA",
    *,
    queue_id: int = 0,
    queue_offset: int = 0,
    body: bytes = b"body",
    store_timestamp_ms: int = 1_700_000_000_000,
    sys_flag: int = 0,
    properties: Iterable[tuple[bytes, bytes]] = (),
) -> StoredMessage:
    """A message with usual values for all that is not given; `commit_log_files` places it."""
    message = StoredMessage(
        size_bytes=0,
        magic=MESSAGE_MAGIC_V1,
        body_crc=body_crc(body),
        queue_id=queue_id,
        flag=0,
        queue_offset=queue_offset,
        physical_offset=0,
        sys_flag=sys_flag,
        born_timestamp_ms=store_timestamp_ms - 5,
        born_host=_HOST,
        store_timestamp_ms=store_timestamp_ms,
        store_host=_HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=body,
        topic=topic,
        properties_raw=format_properties(properties),
    )
    return replace(message, size_bytes=len(encode_message(message)))


def commit_log_files(
    messages: Iterable[StoredMessage], file_size_bytes: int, *, start_offset: int = 0
) -> dict[str, bytes]:
    """Returns file name → bytes of a CommitLog with `messages`, their physical offsets set."""
    files: dict[str, bytes] = {}
    first, data = start_offset, bytearray()

    def end_file() -> None:
        nonlocal first, data
        files[f"{first:0{FILE_NAME_DIGITS}d}"] = bytes(data).ljust(file_size_bytes, b"\0")
        first, data = first + file_size_bytes, bytearray()

    for message in messages:
        size = len(encode_message(message))
        if size + BLANK.size_bytes > file_size_bytes:
            raise ValueError(f"a message of {size} bytes does not fit a file of {file_size_bytes}")
        if len(data) + size + BLANK.size_bytes > file_size_bytes:
            data += BLANK.pack(file_size_bytes - len(data), BLANK_MAGIC)
            end_file()
        data += encode_message(replace(message, physical_offset=first + len(data)))
    end_file()
    return files


def write_commit_log(
    root: str,
    messages: Iterable[StoredMessage],
    file_size_bytes: int = 1 << 16,
    *,
    start_offset: int = 0,
    env: Env = DEFAULT_ENV,
) -> None:
    """Writes ``ROOT/commitlog`` with `messages`."""
    env.make_dirs(f"{root}/commitlog")
    for name, data in commit_log_files(messages, file_size_bytes, start_offset=start_offset).items():
        with env.open_write(f"{root}/commitlog/{name}") as file:
            file.write_at(0, data)
