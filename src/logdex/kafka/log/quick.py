"""The short way of usual records into the log: what `append.append_encoded` does, without the
arrays and most of the calls between its steps, which take longer than the work itself.

Records are usual if they have no codec, producer or epoch of their own, and the active segment has
room for them. All others take the long way. A test holds that both write the same files.
"""

from __future__ import annotations

from collections.abc import Sequence

from logdex.kafka.batch.plain_batch import PlainBatch, encode_plain
from logdex.kafka.batch.record import NO_TIMESTAMP, Record
from logdex.kafka.log.append import AppendInfo
from logdex.kafka.log.append_checks import OFFSET_END
from logdex.kafka.log.core import LogCore


class QuickAppends:
    """Appends usual records. Thread-safe."""

    def __init__(self, core: LogCore) -> None:
        self._core = core
        config = core.config
        before_ms, self._after_ms = core.timestamp_bounds_ms
        self._is_usual = config.message_timestamp_type == "CreateTime" and before_ms is None
        self._needs_keys = config.is_compacted
        self._is_sync = config.flush == "sync"
        self._size_bytes_max = min(config.max_message_bytes, config.segment_bytes)
        self._lock, self._unlock = core.lock.acquire, core.lock.release  # half the time of a with statement

    def append(self, records: Sequence[Record]) -> AppendInfo | None:
        """Appends checked records as one batch. Returns None, with nothing written, if they must
        take the long way.

        Raises `StorageError` or `LogFailedError` if writing fails.
        """
        core = self._core
        if not records or not self._is_usual:
            return None
        if self._needs_keys and any(record.key is None for record in records):
            return None
        now_ms = core.now_ms()
        batch = encode_plain(records, now_ms)
        if batch is None or batch.size_bytes > self._size_bytes_max:
            return None
        if self._after_ms is not None and batch.max_timestamp_ms > now_ms + self._after_ms:
            return None  # to be refused
        self._lock()
        try:
            base_offset = self._write(batch)
            ticket = 0 if base_offset is None else core.group_commit.next_ticket()
        finally:
            self._unlock()
        if base_offset is None:
            return None
        if self._is_sync:
            core.group_commit.wait(ticket)
        last_offset = base_offset + batch.records - 1
        return AppendInfo(base_offset, last_offset, batch.max_timestamp_ms, NO_TIMESTAMP, batch.size_bytes, 1)

    def _write(self, batch: PlainBatch) -> int | None:
        """Writes a batch at the end of the log and returns its base offset. Call it with the lock
        held."""
        core = self._core
        core.require_usable()
        base_offset, epoch, segment = core.next_offset, core.epochs.latest_epoch, core.segments.active
        end_offset = base_offset + batch.records
        if epoch is None or end_offset > OFFSET_END:
            return None
        if segment.should_roll(
            incoming_size_bytes=batch.size_bytes,
            max_timestamp_ms=batch.max_timestamp_ms,
            max_offset=end_offset - 1,
            now_ms=core.now_ms(),
        ):
            return None
        data = batch.at(base_offset, epoch)
        try:
            segment.append_one(data, end_offset - 1, batch.max_timestamp_ms)
            core.next_offset = core.producers.states.map_end_offset = end_offset
        except BaseException as error:
            core.group_commit.fail(error)
            raise
        return base_offset
