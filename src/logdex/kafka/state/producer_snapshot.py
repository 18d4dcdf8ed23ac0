"""`<offset>.snapshot`: the producer state of a partition at that offset.

Source: ``docs/formats/kafka-producer-snapshot.md``; Kafka's ProducerStateManager.writeSnapshot and
readSnapshot.
"""

from __future__ import annotations

from logdex import limits
from logdex.errors import CorruptError, CrcMismatchError, TruncatedError
from logdex.io.atomic_file import write_atomically
from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.state.producer_state import BatchMetadata, ProducerState, ProducerStates
from logdex.layout.kafka import PRODUCER_SNAPSHOT_ENTRY, PRODUCER_SNAPSHOT_HEADER
from logdex.primitives.crc32c import crc32c

VERSION = 1
_HEADER, _ENTRY = PRODUCER_SNAPSHOT_HEADER, PRODUCER_SNAPSHOT_ENTRY
_CRC_FROM = _HEADER.offset_of("count")
_HINT = "remove it: the broker and Logdex then derive the state from the log"


def derive_producer_snapshot(states: ProducerStates) -> bytes:
    """The file's bytes."""
    entries = [_ENTRY.pack(*_values(state)) for state in states.in_snapshot_order()]
    checked = len(entries).to_bytes(_HEADER.size_bytes - _CRC_FROM, "big") + b"".join(entries)
    return _HEADER.pack(VERSION, crc32c(checked), len(entries)) + checked[_HEADER.size_bytes - _CRC_FROM :]


def _values(state: ProducerState) -> tuple[int, ...]:
    return (
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_offset,
        state.offset_delta,
        state.last_timestamp_ms,
        state.coordinator_epoch,
        state.current_txn_first_offset,
    )


def read_producer_snapshot(data: bytes, *, path: str = "<bytes>") -> list[ProducerState]:
    """The producers in a snapshot's bytes, in file order.

    Raises `TruncatedError` for a wrong size, `CrcMismatchError` for a wrong checksum, and
    `CorruptError` for an unknown version.
    """
    if len(data) < _HEADER.size_bytes:
        raise _truncated(data, path, "header", _HEADER.size_bytes)
    version, crc, count = _HEADER.struct.unpack_from(data)
    if version != VERSION:
        raise CorruptError(
            "the version is unknown",
            path=path,
            position=0,
            field="version",
            expected=VERSION,
            found=version,
            hint=_HINT,
        )
    computed = crc32c(memoryview(data)[_CRC_FROM:])
    if crc != computed:
        raise CrcMismatchError(
            "the checksum of the entries is wrong",
            path=path,
            position=_HEADER.offset_of("crc"),
            field="crc",
            expected=f"{computed:#010x}",
            found=f"{crc:#010x}",
            hint=_HINT,
        )
    if not 0 <= count <= (len(data) - _HEADER.size_bytes) // _ENTRY.size_bytes:
        raise _truncated(data, path, "count", _HEADER.size_bytes + max(count, 0) * _ENTRY.size_bytes)
    ends = _HEADER.size_bytes + count * _ENTRY.size_bytes
    return [_state(*values) for values in _ENTRY.struct.iter_unpack(data[_HEADER.size_bytes : ends])]


def _truncated(data: bytes, path: str, field: str, expected: int) -> TruncatedError:
    return TruncatedError(
        "the snapshot ends too early",
        path=path,
        position=len(data),
        field=field,
        expected=f"{expected} bytes",
        found=len(data),
        hint=_HINT,
    )


def _state(
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp_ms: int,
    coordinator_epoch: int,
    current_txn_first_offset: int,
) -> ProducerState:
    batches = [BatchMetadata(last_sequence, last_offset, offset_delta, timestamp_ms)] if last_offset >= 0 else []
    return ProducerState(
        producer_id, producer_epoch, coordinator_epoch, timestamp_ms, max(current_txn_first_offset, -1), batches
    )


def load_producer_snapshot(path: str, *, env: Env = DEFAULT_ENV) -> list[ProducerState]:
    """Reads the producers of the file at `path`. Raises as `read_producer_snapshot` does."""
    return read_producer_snapshot(env.read_file(path, limits.PRODUCER_SNAPSHOT_SIZE_BYTES_MAX), path=path)


def write_producer_snapshot(path: str, states: ProducerStates, *, env: Env = DEFAULT_ENV) -> None:
    """Writes the snapshot of `states` to `path`, atomically."""
    write_atomically(path, derive_producer_snapshot(states), env=env)
