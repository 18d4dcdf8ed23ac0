"""The broker's own files in ``config/``: consumer offsets, topics, delay offsets, subscription
groups.

As in the broker, a missing, empty or malformed file is replaced by its ``.bak``. Source:
``docs/formats/config-json.md``; ConfigManager.load, ConsumerOffsetManager, TopicConfigManager,
ScheduleMessageService, SubscriptionGroupManager.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from logdex import limits
from logdex.errors import CorruptError, StorageError, StoreError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.rocketmq.files.config_json import parse_config_json

Raw = dict[int | str, Any]
_INT_BITS, _LONG_BITS = 32, 64
_HINT = "restore the file from a replica or a backup, or move it and its .bak away"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The contents of a file.

    `path` is the file that was read; if neither file exists, it is None and `raw` is empty.
    `problem` states why the ``.bak`` was read instead, if it was.
    """

    raw: Raw
    path: str | None
    problem: StoreError | None = None

    @property
    def is_newest(self) -> bool:
        """Whether the file itself was read, and not its ``.bak``."""
        return self.path is not None and not self.path.endswith(".bak")

    def require_newest(self) -> None:
        """Raises the error if the ``.bak`` was read because the file itself could not be read: it
        may be sound, and newer than its ``.bak``, and must not be replaced."""
        if isinstance(self.problem, StorageError):
            raise self.problem


def read_config(directory: str, name: str, *, env: Env = DEFAULT_ENV) -> ConfigFile:
    """Reads ``config/NAME`` or its ``.bak``. Raises the first file's error if no valid ``.bak``
    exists."""
    path = f"{directory}/{name}"
    problem: StoreError | None = None
    for candidate in (path, f"{path}.bak"):
        try:
            if not env.exists(candidate):
                continue
            data = env.read_file(candidate, limits.CONFIG_FILE_SIZE_BYTES_MAX)
            if data:
                return ConfigFile(parse_config_json(data, path=candidate), candidate, problem)
        except StoreError as error:
            problem = problem or error
    if problem is not None:
        problem.hint = problem.hint or _HINT
        raise problem
    return ConfigFile({}, None)


def next_data_version(old: object, now_ms: int, *, has_state: bool) -> dict[str, Any]:
    """The dataVersion of a file after a change; `old` is the one before it, of any form."""
    version: dict[str, Any] = {"counter": 0}
    if has_state:
        version["stateVersion"] = 0
    if isinstance(old, dict):
        version |= {str(name): value for name, value in old.items()}
    counter = version["counter"]
    return version | {"counter": (counter if isinstance(counter, int) else 0) + 1, "timestamp": now_ms}


def _name(key: object) -> bytes:
    """The bytes of a topic or group name. An unquoted number can be a name too."""
    return str(key).encode("utf-8", "surrogateescape")


def _table(file: ConfigFile, name: str, of: type) -> Raw:
    """The object `name` of a file, empty if missing or null. All its values must be of type
    `of`."""
    table = file.raw.get(name)
    if table is None:
        return {}
    if not isinstance(table, dict):
        raise _not_a(file, name, "an object", table)
    for key, value in table.items():
        # In Python, unlike in the broker, a boolean is an int.
        if not isinstance(value, of) or isinstance(value, bool):
            raise _not_a(file, f"{name}.{key}", "an object" if of is dict else "a whole number", value)
    return table


def _not_a(file: ConfigFile, field_name: str, expected: str, found: object) -> CorruptError:
    shown = repr(found)
    return CorruptError(
        "the value is not one that the broker writes",
        path=file.path or "",
        position=0,
        field=field_name,
        expected=expected,
        found=shown if len(shown) <= 60 else f"{shown[:57]}...",
        hint=_HINT,
    )


def _is_number(value: object, bits: int) -> bool:
    """Whether a value is one that Java's type of so many bits holds. In Python, a boolean is an
    int."""
    return isinstance(value, int) and not isinstance(value, bool) and -1 << bits - 1 <= value < 1 << bits - 1


def _offsets(file: ConfigFile, name: str, table: Raw) -> dict[int, int]:
    """{number: offset}. The numbers may be quoted."""
    offsets = {}
    for key, value in table.items():
        try:
            number = int(key)
        except (TypeError, ValueError):
            raise _not_a(file, name, "whole numbers as names", key) from None
        if not _is_number(number, _INT_BITS):
            raise _not_a(file, name, f"numbers of {_INT_BITS} bits as names", key)
        if not _is_number(value, _LONG_BITS):
            raise _not_a(file, f"{name}.{key}", f"a whole number of {_LONG_BITS} bits", value)
        offsets[number] = value
    return offsets


@dataclass(frozen=True, slots=True)
class ConsumerOffsets:
    """consumerOffset.json: {(topic, group): {queue id: next queue offset to consume}}."""

    file: ConfigFile
    offsets: dict[tuple[bytes, bytes], dict[int, int]] = field(default_factory=dict)

    @staticmethod
    def read(directory: str, *, env: Env = DEFAULT_ENV) -> ConsumerOffsets:
        """Reads the file in a store's ``config`` directory; empty if it is missing."""
        return ConsumerOffsets.of(read_config(directory, "consumerOffset.json", env=env))

    @staticmethod
    def of(file: ConfigFile) -> ConsumerOffsets:
        """Returns what a file that was read says."""
        offsets = {}
        for key, table in _table(file, "offsetTable", dict).items():
            topic, _, group = _name(key).partition(b"@")
            offsets[topic, group] = _offsets(file, f"offsetTable.{key}", table)
        return ConsumerOffsets(file, offsets)


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One topic. `raw` has all fields as written."""

    topic: bytes
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    raw: Raw


@dataclass(frozen=True, slots=True)
class TopicConfigs:
    """topics.json: topics by name."""

    file: ConfigFile
    topics: dict[bytes, TopicConfig] = field(default_factory=dict)

    @staticmethod
    def read(directory: str, *, env: Env = DEFAULT_ENV) -> TopicConfigs:
        """Reads the file in a store's ``config`` directory; empty if it is missing."""
        return TopicConfigs.of(read_config(directory, "topics.json", env=env))

    @staticmethod
    def of(file: ConfigFile) -> TopicConfigs:
        """Returns what a file that was read says."""
        topics = {}
        for key, raw in _table(file, "topicConfigTable", dict).items():
            numbers = {}
            # Missing fields have the defaults of a new TopicConfig.
            for name, default in (("readQueueNums", 16), ("writeQueueNums", 16), ("perm", 6)):
                value = raw.get(name, default)
                if not _is_number(value, _INT_BITS):
                    expected = f"a whole number of {_INT_BITS} bits"
                    raise _not_a(file, f"topicConfigTable.{key}.{name}", expected, value)
                numbers[name] = value
            topic = _name(key)
            topics[topic] = TopicConfig(
                topic, numbers["readQueueNums"], numbers["writeQueueNums"], numbers["perm"], raw
            )
        return TopicConfigs(file, topics)


@dataclass(frozen=True, slots=True)
class DelayOffsets:
    """delayOffset.json: {delay level: next queue offset}. A level's queue id is the level minus
    1."""

    file: ConfigFile
    offsets: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def read(directory: str, *, env: Env = DEFAULT_ENV) -> DelayOffsets:
        """Reads the file in a store's ``config`` directory; empty if it is missing."""
        return DelayOffsets.of(read_config(directory, "delayOffset.json", env=env))

    @staticmethod
    def of(file: ConfigFile) -> DelayOffsets:
        """Returns what a file that was read says."""
        return DelayOffsets(file, _offsets(file, "offsetTable", _table(file, "offsetTable", int)))


@dataclass(frozen=True, slots=True)
class SubscriptionGroups:
    """subscriptionGroup.json: the settings of each consumer group, as written."""

    file: ConfigFile
    groups: dict[bytes, Raw] = field(default_factory=dict)

    @staticmethod
    def read(directory: str, *, env: Env = DEFAULT_ENV) -> SubscriptionGroups:
        """Reads the file in a store's ``config`` directory; empty if it is missing."""
        return SubscriptionGroups.of(read_config(directory, "subscriptionGroup.json", env=env))

    @staticmethod
    def of(file: ConfigFile) -> SubscriptionGroups:
        """Returns what a file that was read says."""
        return SubscriptionGroups(
            file, {_name(key): raw for key, raw in _table(file, "subscriptionGroupTable", dict).items()}
        )


_KINDS: dict[str, Callable[[ConfigFile], object]] = {
    "consumerOffset.json": ConsumerOffsets.of,
    "topics.json": TopicConfigs.of,
    "delayOffset.json": DelayOffsets.of,
    "subscriptionGroup.json": SubscriptionGroups.of,
}


def require_config(data: bytes, path: str) -> None:
    """Raises `CorruptError` unless the bytes of a file in ``config/`` are what the broker parses
    there."""
    file = ConfigFile(parse_config_json(data, path=path), path)
    kind = _KINDS.get(posixpath.basename(path).removesuffix(".bak"))
    if kind is not None:
        kind(file)
