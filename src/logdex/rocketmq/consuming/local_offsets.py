"""`LocalFileOffsetStore`: how far one consumer that gets all messages (BROADCASTING) has consumed,
in the client's own file ``offsets.json``.

Source: ``docs/formats/config-json.md``; LocalFileOffsetStore, OffsetSerializeWrapper.
"""

from __future__ import annotations

import os
import posixpath
import threading
from collections.abc import Mapping
from typing import Any

from logdex.errors import CorruptError, UsageError
from logdex.io.atomic_file import write_atomically
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import path_text
from logdex.primitives.text import to_bytes
from logdex.rocketmq.files.config_files import INT_BITS, LONG_BITS, ConfigFile, number_of, read_config
from logdex.rocketmq.files.config_json import format_config_json

Text = str | bytes
DEFAULT_BROKER_NAME = "DEFAULT_BROKER"


class LocalFileOffsetStore:
    """The offsets of one consumer. Thread-safe; one process at a time uses a file.

    `path` is the file: ``~/.rocketmq_offsets/ADDRESS@DEFAULT/GROUP/offsets.json`` for a Java
    client. `broker_name` is part of a queue's name there.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, broker_name: str = DEFAULT_BROKER_NAME, env: Env = DEFAULT_ENV
    ) -> None:
        self.path = path_text(path)
        self.broker_name = broker_name
        self._env = env
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"LocalFileOffsetStore({self.path!r}, broker_name={self.broker_name!r})"

    def read_offset(self, topic: Text, queue_id: int) -> int:
        """The next offset of a queue to consume; -1 if none was committed."""
        return self.read_offsets(topic).get(queue_id, -1)

    def read_offsets(self, topic: Text) -> dict[int, int]:
        """{queue id: next offset} of a topic. Raises `CorruptError` if neither the file nor its
        ``.bak`` can be read."""
        offsets = {}
        for key, offset in _table(self._read()).items():
            queue = dict(key) if isinstance(key, tuple) else {}
            if queue.get("brokerName") == self.broker_name and queue.get("topic") == _text(to_bytes(topic)):
                offsets[queue.get("queueId", 0)] = offset
        return offsets

    def persist(self, topic: Text, offsets: Mapping[int, int]) -> None:
        """Sets the next offsets of some queues of a topic, on disk when this returns. Those of
        other queues stay."""
        if any(offset < 0 or queue_id < 0 for queue_id, offset in offsets.items()):
            raise UsageError(f"the offsets {dict(offsets)} cannot be committed")
        with self._lock:
            file = self._read()
            file.require_newest()
            table = dict(_table(file))
            for queue_id, offset in offsets.items():
                wanted = {"brokerName": self.broker_name, "queueId": queue_id, "topic": _text(to_bytes(topic))}
                same = (key for key in table if isinstance(key, tuple) and dict(key) == wanted)
                table[next(same, tuple(wanted.items()))] = offset
            directory = posixpath.dirname(self.path) or "."
            if not self._env.is_dir(directory):
                self._env.make_dirs_durably(directory)
            data = format_config_json({"offsetTable": table})
            write_atomically(self.path, data, backup=f"{self.path}.bak", env=self._env)

    def _read(self) -> ConfigFile:
        directory, name = posixpath.split(self.path)
        return read_config(directory or ".", name, _checked, env=self._env)


def _checked(file: ConfigFile) -> ConfigFile:
    """Raises `CorruptError` unless the file is one that a client parses."""
    _table(file)
    return file


def _table(file: ConfigFile) -> dict[Any, int]:
    """The offsets by queue. A queue is the tuple of its members, with a number as its id."""
    table = file.raw.get("offsetTable") or {}
    found: dict[Any, int] = {}
    for key, value in table.items() if isinstance(table, dict) else [(None, None)]:
        members = dict(key) if isinstance(key, tuple) else {}
        queue_id, offset = number_of(members.get("queueId", 0), INT_BITS), number_of(value, LONG_BITS)
        if queue_id is None or offset is None:
            raise CorruptError(
                "the value is not one that a client writes",
                path=file.path or "",
                position=0,
                field="offsetTable",
                expected="offsets by queue",
                found=repr(table)[:60],
            )
        if "queueId" in members:
            key = tuple((members | {"queueId": queue_id}).items())
        found[key] = offset
    return found


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
