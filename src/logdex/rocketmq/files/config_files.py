"""The broker's own files in ``config/``: consumer offsets, topics, delay offsets, subscription
groups.

As in the broker, a file that is missing, empty or not what the broker parses is replaced by its
``.bak``. Source:
``docs/formats/config-json.md``; ConfigManager.load, ConsumerOffsetManager, TopicConfigManager,
ScheduleMessageService, SubscriptionGroupManager.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from logdex import limits
from logdex.errors import CorruptError, StorageError, StoreError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.rocketmq.files.config_json import parse_config_json

Raw = dict[int | str, Any]
Kind = TypeVar("Kind")
INT_BITS, LONG_BITS = 32, 64
_QUOTED_NUMBER = re.compile(r"-?[0-9]{1,20}")
_HINT = "restore the file from a replica or a backup, or move it and its .bak away"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The contents of a file.

    `path` is the file that was read; if neither file exists, it is None and `raw` is empty.
    `problem` states why the ``.bak`` was read instead, if the file is there and not empty.
    """

    raw: Raw
    path: str | None
    problem: StoreError | None = None

    @property
    def is_newest(self) -> bool:
        """Whether the file itself was read, and not its ``.bak``."""
        return self.path is not None and not self.path.endswith(".bak")

    @property
    def remark(self) -> str | None:
        """What a reader must report, in words: that the ``.bak`` was read, and why. None for the
        file itself."""
        if self.path is None or self.is_newest:
            return None
        newest = self.path.removesuffix(".bak")
        why = f"{newest}: missing or empty" if self.problem is None else self.problem.message
        return f"{why}; read {self.path} instead"

    def require_newest(self) -> None:
        """Raises the error if the ``.bak`` was read because the file itself could not be read: it
        may be sound, and newer than its ``.bak``, and must not be replaced."""
        if isinstance(self.problem, StorageError):
            raise self.problem


def read_config(directory: str, name: str, of: Callable[[ConfigFile], Kind], *, env: Env = DEFAULT_ENV) -> Kind:
    """Returns what `of` makes of ``config/NAME`` or, if that raises `CorruptError`, of its
    ``.bak``. Raises the first file's error if no valid ``.bak`` exists."""
    path = f"{directory}/{name}"
    problem: StoreError | None = None
    for candidate in (path, f"{path}.bak"):
        try:
            if not env.exists(candidate):
                continue
            data = env.read_file(candidate, limits.CONFIG_FILE_SIZE_BYTES_MAX)
            if data:
                return of(ConfigFile(parse_config_json(data, path=candidate), candidate, problem))
        except StoreError as error:
            problem = problem or error
    if problem is not None:
        problem.hint = problem.hint or _HINT
        try:
            raise problem
        finally:
            problem = None  # its traceback has this frame: it would keep all callers' until Python collects cycles
    return of(ConfigFile({}, None))


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


def _table(file: ConfigFile, name: str) -> Raw:
    """The object `name` of a file, empty if missing or null."""
    table = file.raw.get(name)
    if table is None:
        return {}
    if not isinstance(table, dict):
        raise _not_a(file, name, "an object", table)
    return table


def _objects(file: ConfigFile, name: str) -> dict[int | str, Raw]:
    """The object `name` of a file, whose values must be objects."""
    table = _table(file, name)
    for key, value in table.items():
        if not isinstance(value, dict):
            raise _not_a(file, f"{name}.{key}", "an object", value)
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


def number_of(value: object, bits: int) -> int | None:
    """The number that the broker takes a value for, which may be in quotes or have a fraction; None
    if Java's type of so many bits does not hold it."""
    if isinstance(value, str) and _QUOTED_NUMBER.fullmatch(value):
        value = int(value)
    # In Python, unlike in the broker, a boolean is an int.
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    number = int(value)
    return number if -1 << bits - 1 <= number < 1 << bits - 1 else None


def _offsets(file: ConfigFile, name: str, table: Raw) -> dict[int, int]:
    """{number: offset}. Both may be quoted."""
    offsets = {}
    for key, value in table.items():
        number, offset = number_of(key, INT_BITS), number_of(value, LONG_BITS)
        if number is None:
            raise _not_a(file, name, f"whole numbers of {INT_BITS} bits as names", key)
        if offset is None:
            raise _not_a(file, f"{name}.{key}", f"a whole number of {LONG_BITS} bits", value)
        offsets[number] = offset
    return offsets


@dataclass(frozen=True, slots=True)
class ConsumerOffsets:
    """consumerOffset.json: {(topic, group): {queue id: next queue offset to consume}}."""

    file: ConfigFile
    offsets: dict[tuple[bytes, bytes], dict[int, int]] = field(default_factory=dict)

    @staticmethod
    def read(directory: str, *, env: Env = DEFAULT_ENV) -> ConsumerOffsets:
        """Reads the file in a store's ``config`` directory; empty if it is missing."""
        return read_config(directory, "consumerOffset.json", ConsumerOffsets.of, env=env)

    @staticmethod
    def of(file: ConfigFile) -> ConsumerOffsets:
        """Returns what a file that was read says."""
        offsets = {}
        for key, table in _objects(file, "offsetTable").items():
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
        return read_config(directory, "topics.json", TopicConfigs.of, env=env)

    @staticmethod
    def of(file: ConfigFile) -> TopicConfigs:
        """Returns what a file that was read says."""
        topics = {}
        for key, raw in _objects(file, "topicConfigTable").items():
            numbers = {}
            # A missing field has the default of a new TopicConfig, and so has null in 4.x (5.x: 0).
            for name, default in (("readQueueNums", 16), ("writeQueueNums", 16), ("perm", 6)):
                value = raw.get(name)
                number = default if value is None else number_of(value, INT_BITS)
                if number is None:
                    expected = f"a whole number of {INT_BITS} bits"
                    raise _not_a(file, f"topicConfigTable.{key}.{name}", expected, value)
                numbers[name] = number
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
        return read_config(directory, "delayOffset.json", DelayOffsets.of, env=env)

    @staticmethod
    def of(file: ConfigFile) -> DelayOffsets:
        """Returns what a file that was read says."""
        return DelayOffsets(file, _offsets(file, "offsetTable", _table(file, "offsetTable")))


@dataclass(frozen=True, slots=True)
class SubscriptionGroups:
    """subscriptionGroup.json: the settings of each consumer group, as written."""

    file: ConfigFile
    groups: dict[bytes, Raw] = field(default_factory=dict)

    @staticmethod
    def read(directory: str, *, env: Env = DEFAULT_ENV) -> SubscriptionGroups:
        """Reads the file in a store's ``config`` directory; empty if it is missing."""
        return read_config(directory, "subscriptionGroup.json", SubscriptionGroups.of, env=env)

    @staticmethod
    def of(file: ConfigFile) -> SubscriptionGroups:
        """Returns what a file that was read says."""
        return SubscriptionGroups(
            file, {_name(key): raw for key, raw in _objects(file, "subscriptionGroupTable").items()}
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
