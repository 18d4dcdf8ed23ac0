"""A broker that writes a store bit by bit while another reads it: a step at each call of the
reader's system.

Its steps are the broker's, torn as another process may see them: a message in parts, its
ConsumeQueue entry in parts, each index entry in parts, then the slot, then the header field by
field. A mapped file may show the parts of a message or a ConsumeQueue entry in any order; all parts
are there before the broker goes on.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from logdex.io.env import Env
from logdex.rocketmq.index_file.index_service import IndexService
from logdex.rocketmq.message.stored_message import StoredMessage, encode_message
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.testing.store_builder import write_commit_log

IN_ORDER = (0, 1, 2)
"""The parts in which a message and an entry are written."""


@dataclass(frozen=True)
class Step:
    """Bytes that the broker writes into a file."""

    path: Path
    position: int
    data: bytes

    def do(self) -> None:
        """Writes them; a file that is not there is made first."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("r+b" if self.path.exists() else "w+b") as file:
            file.seek(self.position)
            file.write(self.data)


class GrowingStore:
    """A store at `root` with the first `count` of `rows`; `step` goes on writing the others. The
    parts of a message and of a ConsumeQueue entry show in `order`. With `is_ahead` each CommitLog
    file is made when the one before it begins."""

    def __init__(
        self,
        root: Path,
        rows: list[StoredMessage],
        count: int,
        config: StoreConfig,
        *,
        order: Sequence[int] = IN_ORDER,
        is_ahead: bool = False,
    ) -> None:
        self.root, self._order, self._is_ahead = root, order, is_ahead
        whole = root.with_name(f"{root.name}-whole")
        write_commit_log(str(whole), rows, config.mapped_file_size_commit_log)
        rebuild(str(whole), str(whole), config, in_place=True, sync=False)
        with StoreSnapshot(str(whole), config=config) as store:
            self.rows = list(store.scan())
            queues = {(queue.topic, queue.queue_id): queue.directory for queue in store.queues()}
        images = _index_images(whole, self.rows, config)
        self._steps: list[list[Step]] = []
        for number, message in enumerate(self.rows):
            steps = list(self._message_steps(whole, message, config))
            directory = queues[message.topic, message.queue_id]
            steps += self._entry_steps(Path(directory), whole, message, config)
            steps += [
                step for before, after in images[number] for step in _index_steps(root / "index", before, after, config)
            ]
            self._steps.append(steps)
        for steps in self._steps[:count]:
            for step in steps:
                step.do()
        self._left = iter([step for steps in self._steps[count:] for step in steps])
        (root / "abort").write_bytes(b"1")

    def step(self, count: int) -> None:
        """Writes the next few bits."""
        for _ in range(count):
            step = next(self._left, None)
            if step is not None:
                step.do()

    def remove_oldest(self) -> None:
        """Removes all files of the log but the newest with a message, and those made ahead, as
        retention does."""
        files = sorted((self.root / "commitlog").iterdir())
        for file, behind in pairwise(files):
            if not any(behind.read_bytes()):
                break
            file.unlink()

    def _message_steps(self, whole: Path, message: StoredMessage, config: StoreConfig) -> Iterator[Step]:
        size = config.mapped_file_size_commit_log
        start = message.physical_offset // size * size
        path = self.root / "commitlog" / f"{start:020d}"
        if start == message.physical_offset:
            if start:
                before = path.with_name(f"{start - size:020d}")
                data = (whole / "commitlog" / before.name).read_bytes()
                last = max(row.physical_offset + row.size_bytes for row in self.rows if row.physical_offset < start)
                yield from _in_parts(before, last - start + size, data[last - start + size :][:8])
            if not start or not self._is_ahead:
                yield Step(path, 0, bytes(size))
            if self._is_ahead:
                yield Step(path.with_name(f"{start + size:020d}"), 0, bytes(size))
        yield from _in_parts(path, message.physical_offset - start, encode_message(message), self._order)

    def _entry_steps(self, directory: Path, whole: Path, message: StoredMessage, config: StoreConfig) -> Iterator[Step]:
        size = config.consume_queue_file_size_bytes
        at = 20 * message.queue_offset
        name, folder = f"{at // size * size:020d}", self.root / directory.relative_to(whole)
        if at % size == 0:
            yield Step(folder / name, 0, b"")
            yield Step(folder / name, 0, bytes(size))
        yield from _in_parts(folder / name, at % size, (directory / name).read_bytes()[at % size :][:20], self._order)


def _in_parts(path: Path, position: int, data: bytes, order: Sequence[int] = IN_ORDER) -> Iterator[Step]:
    bounds = [*pairwise(len(data) * part // len(order) for part in range(len(order) + 1))]
    for start, end in (bounds[part] for part in order):
        yield Step(path, position + start, data[start:end])


Image = dict[str, bytes]


def _index_images(whole: Path, rows: list[StoredMessage], config: StoreConfig) -> list[list[tuple[Image, Image]]]:
    """Per message, the IndexFiles before and after its keys."""
    folder = whole / "index"
    shutil.rmtree(folder)
    images: list[list[tuple[Image, Image]]] = []
    before: Image = {}
    with IndexService(str(folder), config, writable=True) as service:
        for message in rows:
            service.build_index(message)
            after = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
            images.append([(before, after)])
            before = after
    return images


def _index_steps(folder: Path, before: Image, after: Image, config: StoreConfig) -> Iterator[Step]:
    """What a broker writes from one image to the next: a new file, then entry by entry, slot and
    header."""
    entries_at = 40 + 4 * config.max_hash_slot_num
    for name, new in after.items():
        old = before.get(name)
        if old == new:
            continue
        path = folder / name
        if old is None:
            yield Step(path, 0, b"")
            yield Step(path, 0, bytes(len(new)))
            old = bytes(len(new))
        first, end = (int.from_bytes(image[36:40], "big") for image in (old, new))
        for index in range(max(first, 1), end):
            at = entries_at + 20 * index
            yield from _in_parts(path, at, new[at : at + 20])
            slot = (int.from_bytes(new[at : at + 4], "big") & 0x7FFFFFFF) % config.max_hash_slot_num
            yield Step(path, 40 + 4 * slot, index.to_bytes(4, "big"))
            yield Step(path, 32, new[32:36])
            yield Step(path, 36, (index + 1).to_bytes(4, "big"))
            for field in range(0, 32, 8):
                yield Step(path, field, new[field : field + 8])


class WatchedEnv(Env):
    """Has a store grow by some steps before each call that reads."""

    def __init__(self, store: GrowingStore, steps: int) -> None:
        super().__init__()
        self._store = store
        self._steps_each = steps

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        """Lets the broker write, then does what it is asked."""
        self._store.step(self._steps_each)
        with super().operation(kind, path):
            yield
