"""`BASE.keyindex`: finds the records of a segment that may have a key, newest first.

Kafka does not have this file and ignores it. The results are candidates, because different keys can
have the same hash bits: the record decides (`logdex.kafka.read.key_query`). A block's CRC is
verified before its first use, so damage never leads to a wrong answer. Source:
``docs/formats/kafka-key-index.md``; the reasons for the design are in
``docs/design/0006-key-index.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex import limits
from logdex.errors import CorruptError, CrcMismatchError, TruncatedError, UnsupportedLayoutError, UsageError
from logdex.frames.arrow import pa
from logdex.io.env import DEFAULT_ENV, Env, MappedBytes
from logdex.io.mapped.mapping import require_no_faults, require_readable
from logdex.io.path_look import StrPath, path_text
from logdex.kafka.columns.encode_input import spans_of
from logdex.kafka.key_index.build import FAN_OUT_BITS_MAX, filter_blocks
from logdex.kafka.key_index.covered_log import CoveredLog, read_covered_log, tail_is_in
from logdex.kafka.key_index.plain_lookup import PlainLookup
from logdex.kernels.common.crc32c import crc_sources
from logdex.kernels.compiled import is_plain_quicker
from logdex.kernels.kafka import key_index as kernel
from logdex.kernels.kafka.batch_columns import Int64s
from logdex.kernels.kafka.xxh64 import hash_column
from logdex.layout.kafka import (
    KEY_INDEX_BLOCK_SIZE_BYTES,
    KEY_INDEX_ENTRY,
    KEY_INDEX_HEADER,
    KEY_INDEX_MAGIC,
    KEY_INDEX_VERSION,
)
from logdex.primitives.crc32c import crc32c
from logdex.primitives.shown import counted, repr_of
from logdex.primitives.xxh64 import xxh64

_FIELDS = tuple(field.name for field in KEY_INDEX_HEADER.fields)
_HEAD = KEY_INDEX_HEADER.size_bytes


class KeyCandidates(NamedTuple):
    """The offsets of key i are `offsets[starts[i]:starts[i + 1]]`, newest first (int64)."""

    starts: Int64s
    offsets: Int64s


class KeyIndexEntry(NamedTuple):
    """An entry: 32 bits of the hash of a record's key, and the record's offset."""

    hash_bits: int
    offset: int


@dataclass(frozen=True, slots=True)
class KeyIndexHeader:
    """A key index's header.

    `key_count` counts different keys (strictly: hashes), `keyless_count` records without a key.
    """

    magic: int
    version: int
    fan_out_bits: int
    base_offset: int
    log_size: int
    batch_count: int
    headers_crc: int
    tail_position: int
    tail_headers_crc: int
    entry_count: int
    key_count: int
    keyless_count: int
    hash_seed: int
    block_crcs_crc: int
    header_crc: int

    @property
    def covered(self) -> CoveredLog:
        """What the header states of the .log."""
        return CoveredLog(*(getattr(self, name) for name in CoveredLog._fields))

    @property
    def filter_size(self) -> int:
        """The size of the filter."""
        return filter_blocks(self.key_count) * kernel.FILTER_BLOCK_SIZE_BYTES

    @property
    def body_size(self) -> int:
        """The size of filter, fan-out table and entries."""
        return self.filter_size + 4 * ((1 << self.fan_out_bits) + 1) + KEY_INDEX_ENTRY.size_bytes * self.entry_count

    @property
    def file_size(self) -> int:
        """The size of the whole file."""
        return _HEAD + self.body_size + 4 * -(-self.body_size // KEY_INDEX_BLOCK_SIZE_BYTES)


def decode_header(data: bytes, size_bytes: int, path: str) -> KeyIndexHeader:
    """Decodes and checks the header at the start of `data`, for a file of `size_bytes`.

    Raises `TruncatedError`, `CrcMismatchError`, `CorruptError`, and `UnsupportedLayoutError` for
    another version.
    """
    if len(data) < _HEAD:
        raise TruncatedError("a key index ends in its header", path=path, position=len(data), expected=_HEAD)
    header = KeyIndexHeader(*KEY_INDEX_HEADER.struct.unpack_from(data))
    if header.magic != KEY_INDEX_MAGIC:
        raise _wrong(path, "magic", f"{KEY_INDEX_MAGIC:08x}", f"{header.magic:08x}", "the file is not a key index")
    crc = crc32c(data[: _HEAD - 4])
    if crc != header.header_crc:
        raise CrcMismatchError(
            "a key index's header is damaged",
            path=path,
            position=0,
            field="header_crc",
            expected=crc,
            found=header.header_crc,
            hint=_HINT,
        )
    if header.version != KEY_INDEX_VERSION:
        raise UnsupportedLayoutError(f"key index version {header.version} is not supported", path=path, hint=_HINT)
    bounds = {
        "fan_out_bits": (1, FAN_OUT_BITS_MAX),
        "log_size": (0, limits.SEGMENT_SIZE_BYTES_MAX),
        "tail_position": (0, max(header.log_size, 0)),
        "entry_count": (0, (1 << 31) - 1),
        "key_count": (min(header.entry_count, 1), header.entry_count),
    }
    for field, (least, most) in bounds.items():
        if not least <= getattr(header, field) <= most:
            raise _wrong(path, field, f"{least} to {most}", getattr(header, field), "a key index's header is invalid")
    if size_bytes < header.file_size:
        raise TruncatedError(
            "a key index ends early", path=path, position=size_bytes, expected=header.file_size, found=size_bytes
        )
    if size_bytes > header.file_size:
        raise CorruptError(
            "there are bytes after the end of a key index", path=path, position=header.file_size, hint=_HINT
        )
    return header


_HINT = "remove the file or rebuild it: it can be derived from the .log"


def _wrong(path: str, field: str, expected: object, found: object, text: str) -> CorruptError:
    position = KEY_INDEX_HEADER.offset_of(field)
    return CorruptError(text, path=path, position=position, field=field, expected=expected, found=found, hint=_HINT)


class KeyIndex:
    """One open key index file, mapped. Thread-safe, but do not close it during a look-up."""

    def __init__(self, mapped: MappedBytes, env: Env) -> None:
        """Takes ownership of `mapped`; usually called by `open`. Raises as `decode_header` does."""
        self.path = mapped.path
        self._closed = False
        self._mapped = mapped
        self._env = env
        array = mapped.array
        self.header = decode_header(array[:_HEAD].tobytes(), array.size, self.path)
        header = self.header
        crcs_at = _HEAD + header.body_size
        crc = crc32c(array[crcs_at:].tobytes())
        require_no_faults(array)
        if crc != header.block_crcs_crc:
            raise CrcMismatchError(
                "a key index's checksums are damaged",
                path=self.path,
                position=crcs_at,
                field="block_crcs",
                expected=header.block_crcs_crc,
                found=crc,
                hint=_HINT,
            )
        self._checked = np.zeros(-(-header.body_size // KEY_INDEX_BLOCK_SIZE_BYTES), np.uint8)
        crcs, body = crc_sources(), array.ctypes.data + _HEAD
        self._body = kernel.IndexBody(
            body=body,
            size=header.body_size,
            filter_blocks=header.filter_size // kernel.FILTER_BLOCK_SIZE_BYTES,
            fan_out=body + header.filter_size,
            entries=body + header.body_size - KEY_INDEX_ENTRY.size_bytes * header.entry_count,
            entry_count=header.entry_count,
            fan_out_bits=header.fan_out_bits,
            block_crcs=array.ctypes.data + crcs_at,
            checked=self._checked.ctypes.data,
            crc_function=crcs.crc32c_function,
            crc_table=crcs.crc32c_table,
        )

    def __repr__(self) -> str:
        return repr_of(self, repr(self.path), counted(self.header.key_count, "key"), is_closed=self._closed)

    @classmethod
    def open(cls, path: StrPath, *, env: Env = DEFAULT_ENV) -> KeyIndex:
        """Opens the file at `path`. Raises `StorageError`, and as `decode_header` does."""
        mapped = env.map_read(path_text(path))
        try:
            return cls(mapped, env)
        except BaseException:
            mapped.close()
            raise

    @property
    def base_offset(self) -> int:
        """The base offset of the segment."""
        return self.header.base_offset

    def covers(self, log_path: StrPath) -> int:
        """How many bytes of the .log the index covers: those it was built from, or 0 for another
        .log.

        Compares the last batches only, which takes the same small time for every log.
        """
        return self.header.log_size if tail_is_in(self.header.covered, path_text(log_path), self._env) else 0

    def was_built_from(self, log_path: StrPath) -> bool:
        """Whether the .log begins with all batches that the index was built from. Reads the header
        of each."""
        path = path_text(log_path)
        return read_covered_log(path, self.header.log_size, self._env) == self.header.covered

    def may_contain(self, key: bytes) -> bool:
        """False means that no record has `key`. One small read; about one absent key in 40 returns
        True."""
        return self._passes_filter(self._hash(key))

    def candidates(self, key: bytes) -> Int64s:
        """The offsets of the records that may have `key`, newest first.

        Raises `CrcMismatchError` for a damaged block.
        """
        value = self._hash(key)
        if not self._passes_filter(value):
            return np.zeros(0, np.int64)
        if not is_plain_quicker():
            return self._lookup(np.array([value], np.uint64)).offsets
        offsets, bad = self._plain().relative_offsets(value)
        self._refuse_damage(bad)
        require_readable(self._mapped.array)
        return offsets + self.base_offset

    def lookup_many(self, keys: Sequence[bytes] | pa.Array) -> KeyCandidates:
        """`candidates` for many keys at once, without the filter.

        `keys` are bytes, or an Arrow array of binary without nulls. Raises as `candidates` does.
        """
        array = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.binary())
        if array.null_count:
            raise UsageError("a key to look up is null", hint="key indexes contain no records without a key")
        if array.type != pa.binary():
            array = array.cast(pa.binary())
        hashes = np.empty(len(array), np.uint64)
        hash_column(spans_of(array), len(array), self.header.hash_seed, hashes.ctypes.data)
        return self._lookup(hashes)

    def _hash(self, key: bytes) -> int:
        return xxh64(key, self.header.hash_seed)

    def _plain(self) -> PlainLookup:
        header, crcs_at = self.header, _HEAD + self.header.body_size
        body, crcs = self._mapped.array[_HEAD:crcs_at], self._mapped.array[crcs_at:]
        return PlainLookup(body, crcs, self._checked, header.filter_size, header.fan_out_bits)

    def _passes_filter(self, value: int) -> bool:
        if is_plain_quicker():
            passed, bad = self._plain().passes_filter(value)
        else:
            place = np.zeros(1, np.int64)
            passed = kernel.passes_filter(self._body, np.uint64(value), place.ctypes.data)
            bad = int(place[0])
        self._refuse_damage(bad)
        if not passed:  # checked blocks are not checked again, but the file may have been truncated since
            require_readable(self._mapped.array)
        return bool(passed)

    def _lookup(self, hashes: npt.NDArray[np.uint64]) -> KeyCandidates:
        count = len(hashes)
        runs, starts = np.empty((count, 2), np.int64), np.zeros(count + 1, np.int64)
        self._refuse_damage(kernel.find_runs(self._body, hashes.ctypes.data, count, runs.ctypes.data))
        np.cumsum(runs[:, 1], out=starts[1:])
        offsets = np.empty(int(starts[-1]), np.int64)
        kernel.gather_offsets(self._body.entries, runs.ctypes.data, count, self.base_offset, offsets.ctypes.data)
        require_readable(self._mapped.array)
        return KeyCandidates(starts, offsets)

    def entries(self) -> Iterator[KeyIndexEntry]:
        """Yields all entries, in the order of the file. Raises as `candidates` does, before the
        first one."""
        self.verify()
        at = self._body.entries - self._mapped.array.ctypes.data
        size = KEY_INDEX_ENTRY.size_bytes * self.header.entry_count
        entries = np.frombuffer(self._mapped.array[at : at + size].tobytes(), KEY_INDEX_ENTRY.dtype)
        require_readable(self._mapped.array)
        for hash_bits, relative_offset in entries.tolist():
            yield KeyIndexEntry(hash_bits, self.base_offset + relative_offset)

    def verify(self) -> None:
        """Verifies every block. Raises `CrcMismatchError` for the first damaged one."""
        self._refuse_damage(kernel.check_all(self._body))

    def _refuse_damage(self, bad: int) -> None:
        require_no_faults(self._mapped.array)
        if bad != kernel.GOOD:
            require_readable(self._mapped.array)  # the zeros of a truncated file are no damage
            raise CrcMismatchError(
                f"{KEY_INDEX_BLOCK_SIZE_BYTES} bytes of a key index are damaged",
                path=self.path,
                position=_HEAD + bad,
                field="block_crcs",
                hint=_HINT,
            )

    def close(self) -> None:
        """Unmaps the file."""
        self._closed = True
        self._mapped.close()

    def __enter__(self) -> KeyIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
