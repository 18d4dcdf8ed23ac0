"""A small store that a broker wrote, and how to harm it: shared by the tests of verify."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from logdex.errors import CorruptError
from logdex.io.env import Env
from logdex.layout.rocketmq import BLANK_MAGIC
from logdex.rocketmq.files.store_files import queue_folder
from logdex.rocketmq.message.stored_message import StoredMessage, decode_message
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify import VerifyReport, verify
from tests.directories import tree_hash
from tests.golden import rocketmq as golden


def config_of(name: str) -> StoreConfig:
    manifest = golden.manifest(name)
    sizes = manifest["geometry"]
    return StoreConfig(
        mapped_file_size_commit_log=sizes["commitLogFileSize"],
        mapped_file_size_consume_queue=20 * sizes["consumeQueueEntries"],
        max_hash_slot_num=sizes["hashSlots"],
        max_index_num=sizes["maxIndexNum"],
        dialect=Dialect.of(manifest["rocketmq"]),
    )


def walk(path: Path) -> Iterator[tuple[int, StoredMessage]]:
    """(byte in the file, message) of one CommitLog file."""
    data, at = path.read_bytes(), 0
    while at + 8 <= len(data) and int.from_bytes(data[at + 4 : at + 8], "big") != BLANK_MAGIC:
        try:
            message, size = decode_message(data, at)
        except CorruptError:
            return
        yield at, message
        at += size


@dataclass
class Store:
    """A golden store's copy with its messages by file."""

    root: Path
    name: str
    config: StoreConfig = field(init=False)
    messages: list[tuple[str, int, StoredMessage]] = field(init=False)
    """(path below the root, byte in the file, message) in log order."""

    def __post_init__(self) -> None:
        self.config = config_of(self.name)
        self.messages = [
            (f"commitlog/{path.name}", at, message)
            for path in sorted((self.root / "commitlog").iterdir())
            for at, message in walk(path)
        ]

    def verify(self, **more: Any) -> VerifyReport:
        """Runs verify and holds it to write nothing."""
        env = Env()
        before = tree_hash(self.root)
        report = verify(str(self.root), self.config, env=env, **more)
        assert env.counters.written_bytes == 0
        assert tree_hash(self.root) == before
        return report

    def found(self, **more: Any) -> list[tuple[str, str, int]]:
        """(check, path below the root, position) of each finding."""
        return [
            (finding.check, str(Path(finding.path).relative_to(self.root)), finding.position)
            for finding in self.verify(**more).findings
        ]

    def kinds(self) -> set[str]:
        """The kinds of information."""
        return {info.kind for info in self.verify().infos}

    def change(self, path: str, position: int, mask: int = 1) -> None:
        """Flips bits of one byte."""
        with (self.root / path).open("r+b") as file:
            file.seek(position)
            old = file.read(1)[0]
            file.seek(position)
            file.write(bytes([old ^ mask]))

    def write(self, path: str, position: int, data: bytes) -> None:
        """Overwrites bytes."""
        with (self.root / path).open("r+b") as file:
            file.seek(position)
            file.write(data)

    def cut(self, path: str, size: int) -> None:
        """Makes a file shorter (or longer, with zeros)."""
        with (self.root / path).open("r+b") as file:
            file.truncate(size)

    def index(self, number: int = 0) -> str:
        """Path of an IndexFile."""
        return f"index/{sorted(path.name for path in (self.root / 'index').iterdir())[number]}"

    def index_entry(self, index: int) -> int:
        """Byte of an entry."""
        return 40 + 4 * self.config.max_hash_slot_num + 20 * index

    def queue_entry(self, message: StoredMessage) -> tuple[str, int]:
        """Path and byte of a message's ConsumeQueue entry."""
        folder = queue_folder(message.topic, message.queue_id)
        size = self.config.consume_queue_file_size_bytes
        at = 20 * message.queue_offset
        return f"consumequeue/{folder}/{at - at % size:020d}", at % size

    def plain_message(self, number: int = 40) -> tuple[str, int, StoredMessage]:
        """A usual message with body, tags and keys, in the middle of the log, from place `number`
        on."""
        for path, at, message in self.messages[number:]:
            is_usual = message.is_queued and message.body and message.tags and message.keys and message.queue_offset > 1
            if is_usual and not message.sys_flag & 0x30 and b"DELAY" not in message.properties:
                return path, at, message
        raise AssertionError("no such message")
