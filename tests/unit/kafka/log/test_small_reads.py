"""Reads of few records: how much is read and decoded for them, and that they return what a large
read does."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from logdex.errors import OffsetOrderError
from logdex.io.env import Env
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import RecordBatch, decode_batch
from logdex.kafka.log.log import Log
from logdex.kafka.read import log_read
from logdex.kafka.segment.file_records import FileRecords
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot

COUNT = 1_000
READ_BYTES_MAX = 6 * 4096
"""For one record: a few pages of headers, from the nearest index entry on."""


class Spy:
    """Counts the batches that reads decode, and the bytes that go through an `Env`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.env = Env()
        self._decoded: list[int] = []
        monkeypatch.setattr(log_read, "decode_batch", self._decode)

    def _decode(self, data: bytes, at: int, *, path: str, check_crc: bool) -> tuple[RecordBatch, int]:
        self._decoded.append(at)
        return decode_batch(data, at, path=path, check_crc=check_crc)

    def costs(self, call: Callable[[], object]) -> tuple[int, int]:
        """Returns the batches that a call decodes, and the bytes that it reads."""
        self._decoded.clear()
        before = self.env.counters.read_bytes
        call()
        return len(self._decoded), self.env.counters.read_bytes - before


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "events-0")
    with Log.open(path) as log:
        for number in range(COUNT):
            log.append(Record(value=b"%0100d" % number))
    return path


def test_one_record_costs_one_batch(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    with Log.open(path, env=spy.env) as log, PartitionSnapshot(path, env=spy.env) as snapshot:
        for offset in (0, 1, COUNT // 2, COUNT - 1):
            for call in (
                lambda at=offset: log.read(at, max_records=1),
                lambda at=offset: log.read(at, max_records=1, isolation="read_committed"),
                lambda at=offset: next(log.records(at)),
                lambda at=offset: snapshot.read(at, max_records=1),
            ):
                batches, read_bytes = spy.costs(call)
                assert batches == 1
                assert read_bytes <= READ_BYTES_MAX


def test_what_is_decoded_grows_with_what_is_wanted(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    with Log.open(path, env=spy.env) as log:
        for wanted in (2, 20, 200):
            assert wanted <= spy.costs(partial(log.read, 3, max_records=wanted))[0] <= 2 * wanted + 30
            taken = spy.costs(partial(list, itertools.islice(log.records(3), wanted)))[0]
            assert wanted <= taken <= 2 * wanted + 30
        assert spy.costs(lambda: log.read(0))[0] == COUNT  # all at once
        assert spy.costs(lambda: [*log.records(0)])[0] == COUNT


@pytest.mark.parametrize("segment_bytes", [40_000, 1 << 20])
def test_records_are_those_of_a_large_read(tmp_path: Path, segment_bytes: int) -> None:
    sizes = [1, 5_000, 30, 9_000, 700, 1, 1, 1, 20_000, 4_000, 60, 60, 2_900]
    with Log.open(str(tmp_path / "events-0"), segment_bytes=segment_bytes) as log:
        for number in range(60):
            values = [b"%d" % number * (sizes[number % len(sizes)] // 4 + 1)] * (1 + number % 3)
            log.append([Record(value=value) for value in values])
        everything = log.read(0)
        assert [*log.records()] == everything
        for offset, max_bytes in itertools.product(range(0, len(everything), 7), (0, 1, 4_096, 30_000, 1 << 20)):
            whole = log.read(offset, max_bytes)
            assert everything[offset : offset + len(whole)] == whole
            for wanted in (0, 1, 2, 5, 1_000):
                assert log.read(offset, max_bytes, max_records=wanted) == whole[:wanted]


def read_few(log: Log) -> Iterator[Record]:
    return iter(log.read(0, max_records=COUNT))


@pytest.mark.parametrize("read", [Log.records, read_few])
def test_a_contradicting_offset_is_found_wherever_a_read_ends(
    path: str, read: Callable[[Log], Iterator[Record]]
) -> None:
    (file,) = Path(path).glob("*.log")
    positions = [header.position for header in FileRecords(file).headers()]
    with Log.open(path) as log, file.open("r+b") as raw:
        for place in range(1, 80):
            raw.seek(positions[place])
            raw.write(bytes(8))
            raw.flush()
            with pytest.raises(OffsetOrderError, match="contradicts its neighbours"):
                [*read(log)]
            raw.seek(positions[place])
            raw.write(place.to_bytes(8, "big"))
            raw.flush()
        assert len([*read(log)]) == COUNT
