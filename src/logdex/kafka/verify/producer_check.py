"""Compares the producer states derived from the log with the `.snapshot` files.

A broker that loads a log after a crash derives the states from the log's start, as this check does.
If the log does not start at offset 0, or records were compacted or lost, the log may not hold
everything that the files hold; then differences are information. Brokers forget a producer that was
silent for a day of wall-clock time, so a producer that is missing from a snapshot is information
too.
"""

from __future__ import annotations

import numpy as np

from logdex import limits
from logdex.errors import CorruptError, ProducerStateError, UnreadableError
from logdex.io.env import Env
from logdex.kafka.state.producer_snapshot import read_producer_snapshot
from logdex.kafka.state.producer_state import ProducerState, ProducerStates, aborted_of
from logdex.kafka.verify.checks import MOVE_AWAY, Collector
from logdex.kafka.verify.index.transaction_index_check import TransactionCheck
from logdex.kernels.kafka.batch_columns import BatchColumns, pick_columns
from logdex.layout.kafka import BATCH_CONTROL, BATCH_DELETE_HORIZON, PRODUCER_SNAPSHOT_ENTRY, PRODUCER_SNAPSHOT_HEADER
from logdex.primitives.shown import counted

_STATE_FIELDS = {
    "producer_epoch": "producer_epoch",
    "last_sequence": "last_sequence",
    "last_offset": "last_offset",
    "offset_delta": "offset_delta",
    "timestamp_ms": "last_timestamp_ms",
    "coordinator_epoch": "coordinator_epoch",
    "current_txn_first_offset": "current_txn_first_offset",
}


_REMOVE = "remove the file: a broker then goes on from the snapshot before it, and derives the rest from the log"


class ProducerCheck:
    """Checks the producers of one partition, given all its windows in order. `snapshots` holds
    paths by offset. Not thread-safe."""

    def __init__(self, snapshots: dict[int, str], log_start_offset: int, out: Collector, env: Env) -> None:
        self._log_start_offset = log_start_offset
        self._out = out
        self._env = env
        self._states = ProducerStates()
        self._snapshots = dict(sorted(snapshots.items()))
        self._oldest = next(iter(self._snapshots.values()), None)
        self._is_certain = True
        self._next_offset = -1
        self._transactions = TransactionCheck(log_start_offset, out, env)

    def lose(self) -> None:
        """Notes that the log no longer holds everything: records were lost, compacted or deleted
        before this place."""
        self._is_certain = False

    def lose_bytes(self) -> None:
        """Notes that batches were lost by damage before this place."""
        self.lose()
        self._transactions.lose_bytes()

    # -- folding ----------------------------------------------------------------------------------
    def begin_segment(self, base_offset: int) -> None:
        """Notes that the next segment begins at `base_offset`."""
        if self._next_offset < 0 and max(base_offset, self._log_start_offset) > 0:
            self.lose()
        if 0 <= self._next_offset < base_offset:
            self.lose()  # the records before it are missing
        self._compare_until(base_offset)

    def add(self, columns: BatchColumns, path: str) -> None:
        """Adds a window of good batches of the .log at `path`."""
        if self._is_certain:
            self._look_for_compaction(columns)
        done, count = int((columns.last_offset < self._log_start_offset).sum()), len(columns.position)
        last = int(columns.last_offset[-1])
        for offset in [offset for offset in self._snapshots if offset <= last]:
            before = int(np.searchsorted(columns.last_offset, offset))
            self._fold(columns, done, before, path)
            done = max(done, before)
            self._compare_until(offset)
        self._fold(columns, done, count, path)
        self._next_offset = last + 1

    def _fold(self, columns: BatchColumns, start: int, end: int, path: str) -> None:
        if start >= end:
            return
        part = pick_columns(columns, slice(start, end))
        try:
            self._transactions.add(part, aborted_of(self._states.add(part)))
        except ProducerStateError as error:
            place = int(np.searchsorted(part.base_offset, error.offset))
            position = int(part.position[min(place, len(part.position) - 1)])
            mend = "compare with a replica: no broker appends this batch here"
            self._out.find("producer-state", path, position, error.message, mend=mend)
            self.lose_bytes()

    def _look_for_compaction(self, columns: BatchColumns) -> None:
        before = np.append(self._next_offset if self._next_offset >= 0 else 0, columns.last_offset[:-1] + 1)
        is_bare_marker = (columns.attributes & BATCH_CONTROL != 0) & (columns.producer_id >= 0) & (columns.count == 0)
        missing = (columns.count >= 0) & (columns.count != columns.last_offset - columns.base_offset + 1)
        cleaned = (columns.attributes & BATCH_DELETE_HORIZON != 0) & (columns.magic == 2)
        if (columns.base_offset != before).any() or (is_bare_marker | missing | cleaned).any():
            self.lose()

    # -- snapshots --------------------------------------------------------------------------------
    def _compare_until(self, offset: int) -> None:
        for at in [at for at in self._snapshots if at <= offset]:
            self._compare(at, self._snapshots.pop(at))

    def _read(self, path: str) -> list[ProducerState] | None:
        self._out.files += 1
        try:
            data = self._env.read_file(path, limits.PRODUCER_SNAPSHOT_SIZE_BYTES_MAX)
            return read_producer_snapshot(data, path=path)
        except (CorruptError, UnreadableError) as error:
            self._out.find_error("producer-snapshot", error, self._mend(path))
            return None

    def _mend(self, path: str) -> str:
        """Returns how to mend a snapshot: a broker that closed the log cleanly and finds no
        snapshot at all knows no producers."""
        return _REMOVE if path != self._oldest else self._out.rebuild

    def _compare(self, offset: int, path: str) -> None:
        stored = self._read(path)
        if stored is None:
            return
        differs = told = 0
        for place, state in enumerate(stored):
            known = self._states.get(state.producer_id)
            field = _first_difference(state, known)
            if field is None:
                continue
            differs += 1
            began_anew = field == "coordinator_epoch" and state.coordinator_epoch < 0  # the broker had forgotten it
            if self._is_certain and not began_anew:
                told += 1
                self._tell_entry(path, place, state, known, field)
        if differs > told:
            message = counted(differs - told, "producer is known", "producers are known")
            message += " otherwise than what is left of the log tells"
            self._out.info("producer-snapshot-differs", path, message)
        missing = len(self._states) - sum(self._states.get(state.producer_id) is not None for state in stored)
        if missing:
            message = counted(missing, "producer of the log is", "producers of the log are")
            message += " not in it: silent for producer.id.expiration.ms, perhaps"
            self._out.info("producer-snapshot-expired", path, message)

    def _tell_entry(self, path: str, place: int, state: ProducerState, known: ProducerState | None, field: str) -> None:
        entry = PRODUCER_SNAPSHOT_HEADER.size_bytes + place * PRODUCER_SNAPSHOT_ENTRY.size_bytes
        self._out.find(
            "producer-snapshot-entry",
            path,
            entry + PRODUCER_SNAPSHOT_ENTRY.offset_of(field),
            f"producer {state.producer_id}: {field} is not what the log says",
            expected="no such producer" if known is None else getattr(known, _STATE_FIELDS[field]),
            found=state.producer_id if known is None else getattr(state, _STATE_FIELDS[field]),
            mend=self._mend(path),
        )

    # -- transactions -----------------------------------------------------------------------------
    def end_segment(self, txn_path: str, base_offset: int, log: tuple[str, int] | None = None) -> None:
        """Compares the segment's `.txnindex` with its aborted transactions. `log` is the path of
        the segment's .log and its size when it was read, if a broker may be writing it."""
        self._transactions.end_segment(txn_path, base_offset, is_certain=self._is_certain, log=log)

    # -- the end ----------------------------------------------------------------------------------
    def finish(self, next_offset: int, directory: str, *, end_is_lost: bool) -> None:
        """Compares the remaining snapshots, and reports open transactions as information."""
        self._compare_until(max(next_offset, 0))
        for offset, path in self._snapshots.items():
            if self._read(path) is None or end_is_lost:
                continue
            self._out.find(
                "checkpoint-offset",
                path,
                0,
                "a snapshot from behind the log's end",
                expected=f"at most {next_offset}",
                found=offset,
                mend=MOVE_AWAY,
            )
        opened = self._states.ongoing_transactions
        if opened:
            told = counted(len(opened), "transaction is open", "transactions are open")
            shown = ", ".join(
                f"producer {producer} from offset {first}" for first, producer in list(opened.items())[:8]
            )
            self._out.info("txn-open", directory, f"{told} at the end: {shown}")


def _first_difference(state: ProducerState, known: ProducerState | None) -> str | None:
    if known is None:
        return "producer_id"
    for field, name in _STATE_FIELDS.items():
        if getattr(state, name) != getattr(known, name):
            return field
    return None
