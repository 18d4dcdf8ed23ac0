"""Small files that identify a directory: `partition.metadata`, `meta.properties`, and the clean
shutdown file.

Source: ``docs/formats/kafka-log-directory.md``; Kafka's PartitionMetadataFile, MetaProperties,
CleanShutdownFileHandler, Uuid.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from typing import NamedTuple

from logdex import limits
from logdex.errors import CorruptError
from logdex.io.atomic_file import write_atomically
from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.files.file_names import PARTITION_METADATA

_SIZE_BYTES_MAX = limits.BROKER_CONF_SIZE_BYTES_MAX
"""Of each of these files, which have a few lines."""
_UUID_TEXT = re.compile(r"[A-Za-z0-9_-]{22}")


def uuid_to_text(value: uuid.UUID) -> str:
    """Kafka's text form of a UUID: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def uuid_from_text(text: str) -> uuid.UUID:
    """The UUID that Kafka writes as `text`. Raises `ValueError` for any other text."""
    if not _UUID_TEXT.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not a base64 UUID of 22 characters")
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def _malformed(path: str, position: int, field: str, expected: object, found: object) -> CorruptError:
    return CorruptError(
        "the file is malformed", path=path, position=position, field=field, expected=expected, found=found
    )


# -- partition.metadata --------------------------------------------------------------------------
class PartitionMetadata(NamedTuple):
    """The topic id of a partition directory. A broker moves a directory with another id aside."""

    topic_id: uuid.UUID
    version: int = 0

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        return f"version: {self.version}\ntopic_id: {uuid_to_text(self.topic_id)}".encode()

    @staticmethod
    def read(path: str, *, env: Env = DEFAULT_ENV) -> PartitionMetadata:
        """Reads the file at `path`. Raises `CorruptError`, with line and byte position."""
        data = env.read_file(path, _SIZE_BYTES_MAX)
        lines = [*data.decode("utf-8", "backslashreplace").splitlines(), "", ""]
        if _value(lines[0], "version") != "0":
            raise _malformed(path, 0, "line 1", "version: 0", repr(lines[0][:80]))
        try:
            return PartitionMetadata(uuid_from_text(_value(lines[1], "topic_id")))
        except ValueError as error:
            second = data.find(b"\n") + 1
            raise _malformed(path, second, "line 2", "topic_id: <base64 UUID>", repr(lines[1][:80])) from error

    def write(self, path: str, *, env: Env = DEFAULT_ENV) -> None:
        """Replaces the file at `path`."""
        write_atomically(path, self.to_bytes(), env=env)


def read_topic_id(directory: str, *, env: Env) -> uuid.UUID | None:
    """The topic id in a partition directory's `partition.metadata`; None if there is no such
    file."""
    path = f"{directory}/{PARTITION_METADATA}"
    return PartitionMetadata.read(path, env=env).topic_id if env.exists(path) else None


def _value(line: str, name: str) -> str:
    key, _, value = line.partition(":")
    return value.strip() if key.strip() == name else ""


# -- meta.properties -----------------------------------------------------------------------------
class MetaProperties(NamedTuple):
    """The cluster and node of a log directory. Version 0 (ZooKeeper) stores the node as
    `broker.id`."""

    version: int = 1
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: str | None = None

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        pairs = {
            "version": self.version,
            "cluster.id": self.cluster_id,
            "node.id" if self.version else "broker.id": self.node_id,
            "directory.id": self.directory_id,
        }
        return "".join(f"{key}={value}\n" for key, value in pairs.items() if value is not None).encode()

    @staticmethod
    def read(path: str, *, env: Env = DEFAULT_ENV) -> MetaProperties:
        """Reads the file at `path`. Raises `CorruptError` for an unknown version, a malformed
        number, or a missing one: a file of version 0 without any states nothing."""
        data = env.read_file(path, _SIZE_BYTES_MAX)
        found = _properties(data.decode("utf-8", "backslashreplace"))
        version = _number(path, data, found, "version") or 0
        if version not in (0, 1):
            raise _malformed(path, data.find(b"version"), "version", "0 or 1", version)
        node_id = _number(path, data, found, "node.id" if version else "broker.id")
        if version and node_id is None:
            raise _malformed(path, len(data), "node.id", "a number", "nothing")
        if found.get("cluster.id") is None and (version or node_id is None):
            raise _malformed(path, len(data), "cluster.id", "an id", "nothing")
        return MetaProperties(version, found.get("cluster.id"), node_id, found.get("directory.id"))

    def write(self, path: str, *, env: Env = DEFAULT_ENV) -> None:
        """Replaces the file at `path`."""
        write_atomically(path, self.to_bytes(), env=env)


def _properties(text: str) -> dict[str, str]:
    """Parses plain ``key=value`` lines and comments of a Java properties file, as Kafka writes
    them."""
    found = {}
    for raw in text.splitlines():
        line = raw.strip()
        if line and line[0] not in "#!":
            key, separator, value = line.partition("=")
            if not separator:
                key, _, value = line.partition(":")
            found[key.strip()] = value.strip().replace("\\", "")
    return found


def _number(path: str, data: bytes, found: dict[str, str], key: str) -> int | None:
    text = found.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.lstrip("-").isdigit() and len(text) <= 11):
        raise _malformed(path, max(data.find(key.encode()), 0), key, "a number", repr(text[:80]))
    return int(text)


# -- .kafka_cleanshutdown ------------------------------------------------------------------------
class CleanShutdown(NamedTuple):
    """The file that a broker writes after it has flushed and closed every log of a directory."""

    broker_epoch: int = -1
    version: int = 0

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        return json.dumps({"version": self.version, "brokerEpoch": self.broker_epoch}, separators=(",", ":")).encode()

    @staticmethod
    def read(path: str, *, env: Env = DEFAULT_ENV) -> CleanShutdown | None:
        """Reads the clean shutdown file; None if it is missing.

        Its existence is what counts. As in the broker, a file that cannot be parsed has broker
        epoch -1 (older brokers wrote an empty file).
        """
        if not env.exists(path):
            return None
        if env.size_bytes(path) > _SIZE_BYTES_MAX:
            return CleanShutdown()
        data = env.read_file(path, _SIZE_BYTES_MAX)
        try:
            fields = json.loads(data)
            return CleanShutdown(int(fields["brokerEpoch"]), int(fields["version"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            return CleanShutdown()

    def write(self, path: str, *, env: Env = DEFAULT_ENV) -> None:
        """Writes the clean shutdown file to `path`."""
        write_atomically(path, self.to_bytes(), env=env)
