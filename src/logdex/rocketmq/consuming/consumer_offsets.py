"""`ConsumerOffsetManager`: how far each group has consumed each queue, in
``config/consumerOffset.json`` as the broker keeps it.

Source: ``docs/formats/config-json.md``; ConsumerOffsetManager, ConfigManager.persist.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from logdex.errors import LogInUseError, UsageError
from logdex.io.atomic_file import write_atomically
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import path_text
from logdex.jobs import look_again
from logdex.primitives.text import to_bytes
from logdex.primitives.wrong_questions import require_whole
from logdex.rocketmq.consuming.home import checked_group, consuming_lock
from logdex.rocketmq.files.broker_lock import broker_runs
from logdex.rocketmq.files.config_files import ConsumerOffsets, next_data_version
from logdex.rocketmq.files.config_json import format_config_json
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.settings.dialect import DEFAULT_VERSION, Dialect

Text = str | bytes
GroupOffsets = dict[tuple[bytes, int], int]
"""{(topic, queue id): next queue offset to consume} of one group."""
_FILE = "consumerOffset.json"
_OFFSET_MAX = (1 << 63) - 1
_LOOKS_MAX = 3


def wall_clock_ms() -> int:
    """The time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class ConsumerOffsetManager:
    """The committed offsets of a store's consumer groups. Thread-safe, and safe to use from several
    processes: each call reads the file, and what is committed is on disk when a call returns.

    The previous contents are kept in ``consumerOffset.json.bak``. A running broker holds the
    offsets in memory and overwrites the file, so nothing can be committed beside it
    (`LogInUseError`).
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        dialect: Dialect | None = None,
        clock_ms: Callable[[], int] = wall_clock_ms,
        env: Env = DEFAULT_ENV,
    ) -> None:
        self.root = path_text(root).rstrip("/") or "/"
        self._directory = StorePaths(self.root).config
        self._dialect = Dialect.of(DEFAULT_VERSION) if dialect is None else dialect
        self._clock_ms, self._env = clock_ms, env

    def __repr__(self) -> str:
        return f"ConsumerOffsetManager({self.root!r})"

    # -- reading ----------------------------------------------------------------------------------
    def read(self) -> ConsumerOffsets:
        """The file as it is now, or its ``.bak`` as the broker would take it. Raises `CorruptError`
        if neither can be read."""
        for _ in range(_LOOKS_MAX):
            found = ConsumerOffsets.read(self._directory, env=self._env)
            if found.file.path != f"{self._directory}/{_FILE}.bak":
                break
            look_again.pause()  # somebody may be replacing the file
        return found

    def read_settled(self) -> ConsumerOffsets:
        """As `read`, while nobody changes the file through Logdex."""
        with consuming_lock(self.root, self._env):
            return ConsumerOffsets.read(self._directory, env=self._env)

    def query_offset(self, group: str, topic: Text, queue_id: int) -> int:
        """The next offset of a queue that a group will consume; -1 if it has committed none."""
        return self.query_offsets(group, topic).get(queue_id, -1)

    def query_offsets(self, group: str, topic: Text) -> dict[int, int]:
        """{queue id: next offset} of a group and topic."""
        return dict(self.read().offsets.get((to_bytes(topic), to_bytes(group)), {}))

    def which_topic_by_consumer(self, group: str) -> set[bytes]:
        """The topics that a group has committed offsets of."""
        return {topic for topic, each in self.read().offsets if each == to_bytes(group)}

    def which_group_by_topic(self, topic: Text) -> set[bytes]:
        """The groups that have committed offsets of a topic."""
        return {group for each, group in self.read().offsets if each == to_bytes(topic)}

    # -- changing ---------------------------------------------------------------------------------
    def commit_offset(self, group: str, topic: Text, queue_id: int, offset: int) -> None:
        """Sets the next offset of one queue that a group will consume."""
        require_whole(queue_id=queue_id, offset=offset)
        self.commit_offsets(group, {(to_bytes(topic), queue_id): offset})

    def commit_offsets(self, group: str, offsets: Mapping[tuple[bytes, int], int]) -> None:
        """Sets the next offsets of several queues, with one write."""
        checked_group(group)
        for (topic, queue_id), offset in offsets.items():
            if b"@" in topic or not 0 <= queue_id < 1 << 31 or not 0 <= offset <= _OFFSET_MAX:
                raise UsageError(f"the offset {offset} of {topic!r} {queue_id} cannot be committed")
        if offsets:
            self._change(lambda table: _put(table, group, offsets))

    def start_at(self, group: str, topic: Text, offsets: Mapping[int, int]) -> None:
        """Sets where a group starts with a topic. Does nothing if it has committed offsets of
        it."""
        checked_group(group)
        name = f"{_text(to_bytes(topic))}@{group}"

        def change(table: dict[Any, Any]) -> bool:
            if table.get(name):
                return False
            return _put(table, group, {(to_bytes(topic), queue_id): offset for queue_id, offset in offsets.items()})

        self._change(change)

    def clean_offset(self, group: str, topic: Text | None = None) -> None:
        """Removes the offsets of a group, or those of one of its topics."""
        wanted = None if topic is None else _text(to_bytes(topic))

        def change(table: dict[Any, Any]) -> bool:
            pairs = ((name, str(name).partition("@")) for name in table)
            gone = [name for name, (each, _, own) in pairs if own == group and wanted in (None, each)]
            for name in gone:
                del table[name]
            return bool(gone)

        self._change(change)

    def _change(self, change: Callable[[dict[Any, Any]], bool]) -> None:
        """Replaces the file if `change` returns that it has changed the table."""
        with consuming_lock(self.root, self._env):
            if broker_runs(self.root, env=self._env):
                raise LogInUseError(
                    "a broker runs on this store and keeps the offsets itself",
                    path=self.root,
                    hint="stop it first, or consume through it",
                )
            file = ConsumerOffsets.read(self._directory, env=self._env).file
            file.require_newest()
            raw = dict(file.raw)
            table = dict(raw.get("offsetTable") or {})
            if not change(table):
                return
            if not self._env.is_dir(self._directory):
                self._env.make_dirs_durably(self._directory)
            path = f"{self._directory}/{_FILE}"
            shares = self._dialect.number_keys_share_a_line
            data = format_config_json(self._form(raw, table), number_keys_share_a_line=shares)
            write_atomically(path, data, backup=f"{path}.bak", env=self._env)

    def _form(self, raw: dict[Any, Any], table: dict[Any, Any]) -> dict[Any, Any]:
        """The members of the file, as the broker of the store's version writes them."""
        if not self._dialect.topics_have_attributes:
            return {**raw, "offsetTable": table}
        version = next_data_version(raw.get("dataVersion"), self._clock_ms(), has_state=True)
        groups: dict[str, list[str]] = {}
        for name in table:
            topic, _, group = str(name).partition("@")
            groups.setdefault(group, []).append(topic)
        own = {"dataVersion": version, "groupTopicMap": groups, "offsetTable": table}
        return own | {"pullOffsetTable": {}} | {key: value for key, value in raw.items() if key not in own}


def _text(name: bytes) -> str:
    """A name as it stands in the parsed file."""
    return name.decode("utf-8", "surrogateescape")


def _put(table: dict[Any, Any], group: str, offsets: Mapping[tuple[bytes, int], int]) -> bool:
    for (topic, queue_id), offset in offsets.items():
        name = f"{_text(topic)}@{group}"
        # A file may have queue ids with quotes, which the broker reads as the same.
        queues = {int(key): value for key, value in (table.get(name) or {}).items()}
        queues[queue_id] = offset
        table[name] = queues
    return bool(offsets)
