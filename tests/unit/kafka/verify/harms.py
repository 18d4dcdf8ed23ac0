"""Ways to harm the small log directory of `log_harm`: each gives what does it to a directory."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

from logdex.kafka.key_index.build import build_key_index
from logdex.primitives.crc32c import crc32c_by_table
from tests.unit.kafka.verify.log_harm import FIRST, PARTITION, SECOND, THIRD, data, flip, position_of, set_field

SECOND_BATCH = position_of(10, 1)
END = position_of(20, 6)
LOG, INDEX, TIME, TXN = (f"{SECOND}.{suffix}" for suffix in ("log", "index", "timeindex", "txnindex"))
SNAPSHOT = f"{SECOND}.snapshot"

Harm = Callable[[Path], object]


def in_log(base: int, number: int, field: str, value: int) -> Harm:
    """Sets a field of a batch, with a right checksum."""
    path = f"{PARTITION}/{base:020d}.log"
    return lambda root: set_field(root / path, position_of(base, number), field, value)


def put(name: str, position: int, raw: bytes) -> Harm:
    """Overwrites bytes."""

    def harm(root: Path) -> None:
        before = (root / name).read_bytes()
        (root / name).write_bytes(before[:position] + raw + before[position + len(raw) :])

    return harm


def insert(name: str, position: int, raw: bytes) -> Harm:
    """Puts bytes between others."""

    def harm(root: Path) -> None:
        before = (root / name).read_bytes()
        (root / name).write_bytes(before[:position] + raw + before[position:])

    return harm


def cut(name: str, size: int) -> Harm:
    """Cuts a file; negative: so many bytes from its end."""
    return lambda root: (root / name).write_bytes((root / name).read_bytes()[:size]) and None


def bit(name: str, position: int, number: int = 0) -> Harm:
    """Flips a bit."""
    return lambda root: flip(root / name, position, number)


def remove(name: str) -> Harm:
    """Removes a file."""
    return lambda root: (root / name).unlink()


def text(name: str, content: str) -> Harm:
    """Replaces a file."""
    return lambda root: (root / name).write_text(content) and None


def several(*harms: Harm) -> Harm:
    """One after the other."""

    def harm(root: Path) -> None:
        for each in harms:
            each(root)

    return harm


def add_batch(raw: bytes) -> Harm:
    """Puts a batch behind the last one, and takes away what tells of the log's end."""
    end = position_of(20, 6)
    gone = [remove(f"{PARTITION}/{30:020d}.snapshot"), remove(f"{THIRD}.timeindex")]
    return several(insert(f"{THIRD}.log", end, raw), *gone)


def damaged_key_index(root: Path) -> None:
    log = root / f"{FIRST}.log"
    raw = bytearray(build_key_index(str(log)).tobytes())
    raw[70] ^= 1
    (root / f"{FIRST}.keyindex").write_bytes(raw)


def foreign_key_index(root: Path) -> None:
    (root / f"{FIRST}.keyindex").write_bytes(build_key_index(str(root / f"{SECOND}.log")).tobytes())


def old_key_index(root: Path) -> None:
    """The index of a log of the same size, of which one batch has another time."""
    log = root / f"{FIRST}.log"
    before = log.read_bytes()
    in_log(0, 1, "base_timestamp_ms", 1)(root)
    raw = build_key_index(str(log)).tobytes()
    log.write_bytes(before)
    (root / f"{FIRST}.keyindex").write_bytes(raw)


def other_sequence(root: Path) -> None:
    """Another last sequence of the first producer, with a right checksum."""
    raw = bytearray((root / SNAPSHOT).read_bytes())
    raw[10 + 10 + 3] ^= 1
    struct.pack_into(">I", raw, 2, crc32c_by_table(bytes(raw[6:])))
    (root / SNAPSHOT).write_bytes(raw)


def zeros_between(root: Path) -> None:
    put(f"{SECOND}.log", position_of(10, 1), bytes(len(data(12, 2, (5, 0, 8), 0, 0))))(root)
