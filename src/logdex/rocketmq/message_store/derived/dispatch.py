"""The dispatch: follows the CommitLog and adds what is new to the ConsumeQueues and IndexFiles,
batch by batch through the scan kernel.

Source: DefaultMessageStore.ReputMessageService.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator

import numpy as np

from logdex.errors import CorruptError
from logdex.io.env import Env, MappedBytes
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.mapped.mapping import is_mapped, require_readable
from logdex.layout.rocketmq import MESSAGE_FIXED_SIZE_BYTES_MIN
from logdex.rocketmq.consume_queue.derive import ConsumeQueueDeriver
from logdex.rocketmq.files.offset_files import OffsetFile
from logdex.rocketmq.index_file.derive import IndexWindow
from logdex.rocketmq.message.stored_message import decode_message
from logdex.rocketmq.message_store.core import DISPATCH_AT_BYTES, StoreCore
from logdex.rocketmq.message_store.derived.checkpoint import LiveCheckpoint
from logdex.rocketmq.message_store.derived.index import LiveIndex
from logdex.rocketmq.message_store.derived.queues import LiveQueues
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.scan.topic_table import TopicTable
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.settings.store_config import StoreConfig

_log = logging.getLogger(__name__)
BATCH_BYTES = DISPATCH_AT_BYTES
"""The messages that begin in so many bytes of the log are one batch, at most."""
HURRY_BYTES = 4 << 20
"""If so much is left, the next batch follows at once."""


def _adds_up_wrong(data: ByteArray) -> bool:
    """Whether the parts of a message do not add up to its size."""
    try:
        decode_message(data.tobytes(), check_crc=False)
    except CorruptError as error:
        return error.field == "total_size"
    return False


class DerivedFiles:
    """The ConsumeQueues and IndexFiles of a store, and the scanner whose windows fill them. For one
    thread at a time."""

    def __init__(
        self, queues: LiveQueues, index: LiveIndex, config: StoreConfig, env: Env, table: TopicTable | None = None
    ) -> None:
        """`table` has the topics and queues of windows that were scanned before."""
        self.queues = queues
        self.index = index
        self.scanner = Scanner(config, env=env, nobody_writes=True, table=table)
        self.is_deleted: Callable[[bytes], bool] | None = None
        """Says of which topics no ConsumeQueue is derived, while a store is opened."""
        self._deriver = ConsumeQueueDeriver()

    def put(self, window: Window, *, queues_from: int = 0, index_from: tuple[int, int] = (0, 0)) -> None:
        """Adds the entries of a window's messages: to the queues those from the physical offset
        `queues_from` on, to the IndexFiles those from `index_from` (offset, keys done) on."""
        columns, count = window.columns, window.count
        if int(columns.position[0]) >= queues_from:
            names = self.scanner.table.queues
            for number, offsets, entries in self._deriver.derive(window, self.scanner.table):
                if self.is_deleted is None or not self.is_deleted(names[number].topic):
                    self.queues.put(*names[number], offsets, entries)
        part = IndexWindow(
            columns.position[:count],
            columns.store_timestamp_ms[:count],
            columns.key_end[:count],
            columns.key_hash[: window.key_count],
        )
        first = int(np.searchsorted(part.physical_offset, index_from[0]))
        if first < count:
            key = int(part.key_end[first - 1]) if first else 0
            done = index_from[1] if part.physical_offset[first] == index_from[0] else 0
            self.index.put(part, first, key + done)


class Dispatch:
    """Thread-safe: `lock` is held while a batch is dispatched or the derived files are flushed.
    `StoreCore.lock` is never held while this lock is taken."""

    def __init__(self, core: StoreCore, derived: DerivedFiles, checkpoint: LiveCheckpoint) -> None:
        self.lock = threading.RLock()
        self.reput_from = core.log.end_offset
        """The physical offset up to which the log is dispatched."""
        self.error: BaseException | None = None
        """What stopped the dispatch. Puts go on."""
        self.derived = derived
        self.checkpoint = checkpoint
        self._core = core
        self._timestamp_ms = core.last_timestamp_ms
        self._mapped: MappedBytes | None = None
        derived.scanner.check_crcs(False)  # this process wrote the bytes; the engine's doReput checks none either
        self._moved = threading.Condition()
        self._waiting = 0
        """How many threads wait in `wait`."""

    @property
    def is_hurried(self) -> bool:
        """Whether the next batch should follow at once: a thread waits for it, or it is a large
        one."""
        return self._waiting > 0 or self.behind_bytes >= HURRY_BYTES

    @property
    def behind_bytes(self) -> int:
        """How many bytes of the log are not dispatched yet."""
        return max(self._core.log.end_offset - self.reput_from, 0)

    # -- dispatching ------------------------------------------------------------------------------
    def run(self) -> None:
        """Dispatches everything that is in the log now. Raises the error that stops the dispatch,
        now or earlier."""
        end = self._core.log.end_offset
        while self.reput_from < end:
            self.run_batch()

    def run_batch(self) -> bool:
        """Dispatches the next part of the log. Returns False if there is nothing to dispatch."""
        self._core.require_own()  # a forked child may have inherited the lock as held
        with self.lock:
            self._core.require_open()
            if self.error is not None:
                raise self.error
            end = self._core.log.end_offset
            if self.reput_from >= end:
                return False
            stats = self._core.stats
            stats.behind_max = max(stats.behind_max, end - self.reput_from)
            try:
                self._dispatch(end)
                self._note_rolled()
            except BaseException as error:
                self.error = error
                raise
            finally:
                with self._moved:
                    self._moved.notify_all()
            return True

    def _dispatch(self, end: int) -> None:
        log = self._core.log
        start = self.reput_from // log.file_size_bytes * log.file_size_bytes
        file = OffsetFile(log.path_of(start), start, log.file_size_bytes)
        data = self._bytes_of(file)[: min(end, file.end_offset) - start]
        begin = self.reput_from - start
        scanner = self.derived.scanner
        is_filled, done = self._scan(scanner.scan_bytes(file, data, start, begin, begin + BATCH_BYTES))
        if is_filled:
            self._close_file()
            self.reput_from = file.end_offset
        elif done > begin:
            self.reput_from = start + done
        else:
            require_readable(data, begin, data.size)
            self._pass_over(file, data, begin)

    def _scan(self, windows: Generator[Window, None, tuple[bool, int]]) -> tuple[bool, int]:
        while True:
            try:
                window = next(windows)
            except StopIteration as stop:
                is_filled, done = stop.value
                return is_filled, done
            self.derived.put(window)
            self._timestamp_ms = int(window.columns.store_timestamp_ms[window.count - 1])

    def _pass_over(self, file: OffsetFile, data: ByteArray, at: int) -> None:
        """Passes over a message whose parts do not add up to its size, as the engine does. Raises
        `CorruptError` if no whole message is there otherwise."""
        size = int.from_bytes(data[at : at + 4].tobytes(), "big")
        if MESSAGE_FIXED_SIZE_BYTES_MIN <= size <= len(data) - at and _adds_up_wrong(data[at : at + size]):
            _log.warning("the dispatch passes over the message at %d: its size is wrong", self.reput_from)
            self._core.stats.dispatch_passed_over += 1
            self.reput_from += size
            return
        raise CorruptError(
            "no whole message is here; the dispatch stops",
            path=file.path,
            position=at,
            hint="close the store and run logdex verify",
        )

    def _bytes_of(self, file: OffsetFile) -> ByteArray:
        """The bytes of a file of the log as they are now: mapped, so that bodies are not copied."""
        mapped = self._mapped
        if mapped is None or mapped.path != file.path or not is_mapped(mapped.array):
            self._close_file()
            mapped = self._mapped = self._core.env.map_read(file.path)
        return mapped.array

    def _close_file(self) -> None:
        if self._mapped is not None:
            self._mapped.close()
            self._mapped = None

    def _note_rolled(self) -> None:
        """Moves the checkpoint after an IndexFile became full, once the messages that it points to
        are on disk."""
        rolled_ms = self.derived.index.rolled_timestamp_ms()
        if rolled_ms is not None:
            self._core.flush_log()
            self.checkpoint.write(index_msg_timestamp_ms=rolled_ms)

    # -- waiting ----------------------------------------------------------------------------------
    def wait(self, timeout_s: float | None) -> bool:
        """Waits until everything that was in the log at the call is dispatched. Returns whether it
        is. Raises the error that stopped the dispatch."""
        target = self._core.log.end_offset
        until = None if timeout_s is None else time.monotonic() + timeout_s
        with self._moved:
            self._waiting += 1
            self._core.dispatch_wanted.set()
            try:
                while self.reput_from < target and self.error is None:
                    left = None if until is None else until - time.monotonic()
                    if left is not None and left <= 0:
                        return False
                    self._moved.wait(left)
            finally:
                self._waiting -= 1
        if self.reput_from < target and self.error is not None:
            raise self.error
        return True

    # -- durability -------------------------------------------------------------------------------
    def flush(self) -> None:
        """Writes the log and what was derived from it to disk, and moves the checkpoint. Raises the
        error that stopped the dispatch, once the log is on disk. A failed fsync stops the
        dispatch."""
        self._core.require_usable()
        with self.lock:
            upto, timestamp_ms = self.reput_from, self._timestamp_ms
            self._core.flush_log()
            if self.error is not None:
                raise self.error
            try:
                self.derived.queues.flush()
                self.checkpoint.write(
                    physic_msg_timestamp_ms=self._core.durable_timestamp_ms,
                    logics_msg_timestamp_ms=timestamp_ms,
                    logics_physical_offset=upto,
                )
            except BaseException as error:
                self.error = error  # a later fsync would succeed, although the entries are lost
                raise

    def close_files(self) -> None:
        """Closes all files without completing them."""
        with self.lock:
            self._close_file()
            self.derived.queues.close_files()
            self.derived.index.close_files()
