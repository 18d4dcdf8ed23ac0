"""Builds key indexes: from hashes and offsets, and from a .log.

`derive_key_index` alone defines a file's bytes; `logdex.kafka.key_index.plain` is its twin. The
bytes depend on the .log only. Source: ``docs/formats/kafka-key-index.md``.
"""

from __future__ import annotations

import posixpath

import numpy as np

from logdex import limits
from logdex.errors import CorruptError, NotAStoreError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.mapped.byte_array import ByteArray
from logdex.kafka.columns.encode_input import spans_of
from logdex.kafka.columns.record_columns import read_record_batches
from logdex.kafka.files.file_names import LOG_SUFFIX, parse_offset_file
from logdex.kafka.key_index.covered_log import CoveredLog, read_covered_log
from logdex.kafka.scan.scanner import ScanEnd
from logdex.kernels.common.crc32c import crc_sources
from logdex.kernels.kafka import key_index as kernel
from logdex.kernels.kafka.key_index import UInt32s, UInt64s
from logdex.kernels.kafka.xxh64 import hash_records
from logdex.layout.kafka import (
    KEY_INDEX_BLOCK_SIZE_BYTES,
    KEY_INDEX_ENTRY,
    KEY_INDEX_HEADER,
    KEY_INDEX_MAGIC,
    KEY_INDEX_VERSION,
)
from logdex.primitives.crc32c import crc32c

FAN_OUT_BITS_MAX = 22
_ENTRIES_A_BUCKET_BITS = 3
_KEYS_A_FILTER_BLOCK = kernel.FILTER_BLOCK_SIZE_BYTES  # 8 bits per key
_BUFFER_ENTRIES = 1 << 16
_INT_MAX = (1 << 31) - 1
_LOG_BYTES_AN_ENTRY = 32
"""Memory is first allocated for one entry per this many bytes: more than most logs need, and unused
memory is free."""


def fan_out_bits(entry_count: int) -> int:
    """The width of the fan-out table: 8 to 16 entries per bucket, unless there would be more than
    2^22 buckets."""
    return min(max(entry_count.bit_length() - 1 - _ENTRIES_A_BUCKET_BITS, 1), FAN_OUT_BITS_MAX)


def filter_blocks(key_count: int) -> int:
    """The number of filter blocks of 64 bytes: at most 8 bits per key, at least one block, none
    without keys."""
    return max(key_count // _KEYS_A_FILTER_BLOCK, 1) if key_count else 0


def derive_key_index(
    hashes: UInt64s,
    relative_offsets: UInt32s,
    *,
    base_offset: int,
    covered: CoveredLog,
    keyless_count: int = 0,
    hash_seed: int = 0,
) -> ByteArray:
    """The bytes of a key index, with one entry per record that has a key, given in log order.

    `hashes` are the XXH64 of the keys with `hash_seed`. Both arrays are sorted in place and must
    not be used afterwards. Takes 24 bytes of memory per entry beside the result.
    """
    count, bits = len(hashes), fan_out_bits(len(hashes))
    more_hashes, more_offsets = np.empty_like(hashes), np.empty_like(relative_offsets)
    if kernel.sort_entries(hashes, relative_offsets, more_hashes, more_offsets, bits):
        hashes, relative_offsets = more_hashes, more_offsets
    key_count = kernel.count_keys(hashes, bits)
    blocks = filter_blocks(key_count)
    head, filter_size = KEY_INDEX_HEADER.size_bytes, blocks * kernel.FILTER_BLOCK_SIZE_BYTES
    fan_out_size = 4 * ((1 << bits) + 1)
    body_size = filter_size + fan_out_size + KEY_INDEX_ENTRY.size_bytes * count
    out = np.empty(head + body_size + 4 * -(-body_size // KEY_INDEX_BLOCK_SIZE_BYTES), np.uint8)
    out[head : head + filter_size] = 0
    body_at = out.ctypes.data + head
    fan_out_at = body_at + filter_size
    if blocks:
        kernel.write_filter(hashes, body_at, blocks)
    kernel.write_table(hashes, relative_offsets, bits, fan_out_at, fan_out_at + fan_out_size)
    crcs = crc_sources()
    kernel.write_block_crcs(body_at, body_size, body_at + body_size, crcs.crc32c_function, crcs.crc32c_table)
    header = KEY_INDEX_HEADER.pack(
        KEY_INDEX_MAGIC,
        KEY_INDEX_VERSION,
        bits,
        base_offset,
        *covered,
        count,
        key_count,
        min(keyless_count, _INT_MAX),
        hash_seed,
        crc32c(out[head + body_size :].tobytes()),
        0,
    )[:-4]
    out[:head] = np.frombuffer(header + crc32c(header).to_bytes(4, "big"), np.uint8)
    return out


def build_key_index(
    log_path: str,
    *,
    base_offset: int | None = None,
    stop: int | None = None,
    hash_seed: int = 0,
    env: Env = DEFAULT_ENV,
) -> ByteArray:
    """The key index of a segment. It covers the .log up to its last whole batch.

    `base_offset` is by default that of the file name. Batches from byte `stop` on are ignored.
    Control records have no user keys and are left out. Raises `CorruptError` for a damaged batch,
    and `NotAStoreError` for a name that no segment has.
    """
    if base_offset is None:
        parsed = parse_offset_file(posixpath.basename(log_path))
        if parsed is None or parsed[1] != LOG_SUFFIX:
            raise NotAStoreError("the file name is not a base offset followed by .log", path=log_path)
        base_offset = parsed[0]
    entries = _Entries(log_path, base_offset, hash_seed, env.size_bytes(log_path) // _LOG_BYTES_AN_ENTRY)
    end = entries.read(stop, env)
    return derive_key_index(
        entries.hashes[: entries.count],
        entries.offsets[: entries.count],
        base_offset=base_offset,
        covered=read_covered_log(log_path, end.position, env),
        keyless_count=entries.records - entries.count,
        hash_seed=hash_seed,
    )


class _Entries:
    """The hashes and relative offsets of the records with keys, in log order.

    `count` is the number of these, `records` that of all records.
    """

    def __init__(self, path: str, base_offset: int, hash_seed: int, room: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.hash_seed = hash_seed
        self.count = self.records = 0
        self.hashes = np.empty(max(room, _BUFFER_ENTRIES), np.uint64)
        self.offsets = np.empty(max(room, _BUFFER_ENTRIES), np.uint32)

    def read(self, stop: int | None, env: Env) -> ScanEnd:
        """Reads all records, and returns the end of the good batches."""
        batches = read_record_batches(self.path, stop=stop, columns=("offset", "key"), env=env)
        while True:
            try:
                batch = next(batches)
            except StopIteration as stop:
                end: ScanEnd = stop.value
                return end
            rows = batch.num_rows
            self._make_room(rows)
            offsets = batch.column(0).to_numpy()
            found = hash_records(
                spans_of(batch.column(1)),
                offsets.ctypes.data,
                rows,
                self.base_offset,
                self.hash_seed,
                self.hashes.ctypes.data + 8 * self.count,
                self.offsets.ctypes.data + 4 * self.count,
            )
            if found < 0:
                raise CorruptError(
                    "a record does not belong to this segment",
                    path=self.path,
                    position=0,
                    field="base_offset",
                    expected=f"offsets {self.base_offset} to {self.base_offset + limits.RELATIVE_OFFSET_MAX}",
                    found=int(offsets[-1 - found]),
                )
            self.count += found
            self.records += rows

    def _make_room(self, rows: int) -> None:
        if self.count + rows > len(self.hashes):
            room = max(2 * len(self.hashes), self.count + rows)
            hashes, offsets = np.empty(room, np.uint64), np.empty(room, np.uint32)
            hashes[: self.count], offsets[: self.count] = self.hashes[: self.count], self.offsets[: self.count]
            self.hashes, self.offsets = hashes, offsets
