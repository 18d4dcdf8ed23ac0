"""Appends to a partition as brokers before 3.9.1, and 4.0.0, do: an append has one index entry at
most, with its own last offset."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from logdex.kafka.batch.batch_writer import encode_batch
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import RecordBatch, decode_batch
from logdex.kafka.directory.clean_mark import LoneMark
from logdex.kafka.files.file_names import LEADER_EPOCH_CHECKPOINT, LONE_CLEAN_MARK
from logdex.kafka.segment.derive_indexes import encode_offset_entries, encode_time_entries
from logdex.layout.kafka import TIME_INDEX_ENTRY


class OlderBroker:
    """A broker that has the partition in `folder`, and goes on in its last segment. With
    `own_offsets`, time entries name the record with the largest time, as those of older leaders
    do."""

    def __init__(self, folder: Path, interval: int, *, own_offsets: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n0 0\n")
        self.folder, self.interval, self.own_offsets = folder, interval, own_offsets
        bases = sorted(int(path.stem) for path in folder.glob("*.log"))
        self._begin(bases[-1] if bases else 0)

    def _begin(self, base_offset: int) -> None:
        self.base_offset, self.next_offset, self.since = base_offset, base_offset, 0
        for suffix in ("log", "index", "timeindex"):
            self.path(suffix).touch()
        self.largest = self.last_time = (-1, base_offset)
        times = self.path("timeindex").read_bytes()
        if times:
            timestamp, relative = TIME_INDEX_ENTRY.struct.unpack(times[-TIME_INDEX_ENTRY.size_bytes :])
            self.largest = self.last_time = timestamp, base_offset + relative
        for each in batches_of(self.path("log").read_bytes()):
            self.next_offset = each.last_offset + 1

    def path(self, suffix: str) -> Path:
        return self.folder / f"{self.base_offset:020d}.{suffix}"

    def append(self, data: bytes) -> None:
        """Appends some batches at once."""
        batches, position = batches_of(data), self.path("log").stat().st_size
        for each in batches:
            if each.max_timestamp_ms > self.largest[0]:
                self.largest = each.max_timestamp_ms, self._offset_of_largest(each)
        self.next_offset = batches[-1].last_offset + 1
        self._write("log", data)
        if self.since > self.interval:
            entry = np.array([[batches[-1].last_offset, position]], np.int64)
            self._write("index", encode_offset_entries(entry, self.base_offset))
            self._add_time()
            self.since = 0
        self.since += len(data)

    def _offset_of_largest(self, found: RecordBatch) -> int:
        if not self.own_offsets:
            return found.last_offset
        return next(each.offset for each in found.records() if each.timestamp_ms == found.max_timestamp_ms)

    def _add_time(self) -> None:
        if self.largest[0] > self.last_time[0]:
            self.last_time = self.largest
            self._write("timeindex", encode_time_entries(np.array([self.largest], np.int64), self.base_offset))

    def _write(self, suffix: str, data: bytes) -> None:
        with self.path(suffix).open("ab") as file:
            file.write(data)

    def roll(self) -> None:
        self._add_time()
        self._begin(self.next_offset)

    def close(self) -> None:
        self._add_time()
        log = self.path("log")
        (self.folder / LONE_CLEAN_MARK).write_bytes(LoneMark(log.name, log.stat().st_size).to_bytes())


def batches_of(data: bytes) -> list[RecordBatch]:
    found, position = [], 0
    while position < len(data):
        each, size = decode_batch(data, position)
        found.append(each)
        position += size
    return found


def batch_at(offset: int, *times: int, size: int = 1) -> bytes:
    """A batch with a record of each time, whose values are of so many bytes."""
    return encode_batch([Record(b"k", bytes(size), at) for at in times], base_offset=offset)
