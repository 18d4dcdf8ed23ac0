"""Stores with a history: what a broker leaves behind when its CommitLog is cut, grows again, is
written without an index for a while or by another version, and when files are deleted."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

from logdex.rocketmq.index_file.index_service import IndexService
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.testing.store_builder import make_message, write_commit_log
from tests.unit.rocketmq.small_stores import START_MS

HISTORY_CONFIG = StoreConfig(mapped_file_size_commit_log=1 << 14, max_hash_slot_num=61, max_index_num=3_000)


class History:
    """A store whose log and index go their own ways, as a broker's do: `put` appends messages and
    indexes them, `cut` takes the newest away and leaves the index as it is. Every message has its
    own UNIQ_KEY; some have KEYS and a tag.
    """

    def __init__(self, root: Path, config: StoreConfig = HISTORY_CONFIG, *, seed: int = 0) -> None:
        self.root = root
        self.config = config
        self.messages: list[StoredMessage] = []
        self.time_ms = START_MS
        self._number = 0
        self._chance = Random(seed)

    def put(self, count: int, *, indexed: bool = True, step_ms: int = 40, version: str | None = None) -> None:
        """Appends messages and indexes them, as a broker of `version` does."""
        first = len(self.messages)
        for _ in range(count):
            self.messages.append(self._message(step_ms))
        self._write()
        if not indexed:
            return
        config = self.config
        if version is not None:
            config = replace(config, dialect=config.dialect.of(version))
        with IndexService(str(self.root / "index"), config, writable=True) as index:
            for message in self.placed()[first:]:
                index.build_index(message)

    def _message(self, step_ms: int) -> StoredMessage:
        chance, number = self._chance, self._number
        self._number += 1
        self.time_ms += chance.randrange(2 * step_ms + 1)
        properties = [(b"UNIQ_KEY", b"U%08d" % number)]
        properties += [(b"KEYS", b"k%d" % (number % 7))] if chance.random() < 0.8 else []
        properties += [(b"TAGS", b"AB"[number % 2 :][:1])] if chance.random() < 0.8 else []
        return make_message(
            queue_id=number % 3,
            queue_offset=number,
            body=b"x" * chance.choice((20, 20, 35)),
            store_timestamp_ms=self.time_ms,
            properties=properties,
        )

    def cut(self, count: int, *, pause_ms: int = 60_000) -> None:
        """Takes the newest messages away; the clock goes on."""
        del self.messages[len(self.messages) - count :]
        self.time_ms += pause_ms
        self._write()

    def _write(self) -> None:
        shutil.rmtree(self.root / "commitlog", ignore_errors=True)
        write_commit_log(str(self.root), self.messages, self.config.mapped_file_size_commit_log)

    def placed(self) -> list[StoredMessage]:
        """The messages with their physical offsets."""
        placed, at, size = [], 0, self.config.mapped_file_size_commit_log
        for message in self.messages:
            if at % size + message.size_bytes + 8 > size:
                at += size - at % size
            placed.append(replace(message, physical_offset=at))
            at += message.size_bytes
        return placed
