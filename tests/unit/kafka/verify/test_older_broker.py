"""What verify says of indexes that a broker before 3.9.1, or 4.0.0, wrote: an entry is of a whole
append. What such a broker, or a newer one, could have written is no finding; all else is one."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import accumulate, combinations, pairwise, product
from pathlib import Path

import numpy as np
import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.recover import recover
from logdex.kafka.segment.derive_indexes import encode_offset_entries, encode_time_entries
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.verify import verify
from logdex.layout.kafka import OFFSET_INDEX_ENTRY
from tests.cli import helpers
from tests.examples import some
from tests.unit.kafka.verify.log_harm import flip, run
from tests.unit.kafka.verify.older_broker import OlderBroker, batch_at, batches_of

INTERVAL = 150
MS = 1_700_000_000_000
FIRST = f"{0:020d}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "events-0"


def append(broker: OlderBroker, batches: int, records: int = 2) -> None:
    """One append of some batches, whose times rise."""
    first = broker.next_offset
    offsets = range(first, first + batches * records, records)
    broker.append(b"".join(batch_at(at, *(MS + 10 * (at + n) for n in range(records))) for at in offsets))


def kinds(folder: Path, **config: object) -> tuple[list[str], set[str]]:
    report = verify(folder, LogConfig(index_interval_bytes=INTERVAL, **config))  # type: ignore[arg-type]
    others = {"producer-snapshot-offset"}
    return [each.check for each in report.findings], {each.kind for each in report.infos} - others


def test_a_partition_of_an_older_broker_that_was_upgraded(folder: Path) -> None:
    """Two segments of the older one, of which the newer one goes on in the second, and one of the
    newer."""
    broker = OlderBroker(folder, INTERVAL)
    for batches in (3, 2, 4, 2):
        append(broker, batches)
    broker.roll()
    for batches in (5, 3):
        append(broker, batches)
    broker.close()
    assert kinds(folder) == ([], {"older-index-entries", "index-differs"})
    entries = [(folder / f"{base:020d}.index").stat().st_size for base in (0, 22)]
    assert entries == [24, 8]
    with Log.open(folder, index_interval_bytes=INTERVAL) as log:
        assert log.log_end_offset == 38
        for _ in range(4):
            log.append([Record(timestamp_ms=MS + 1000)] * 2)
        log.roll()
        for _ in range(4):
            log.append([Record(timestamp_ms=MS + 2000)] * 2)
        assert [record.offset for record in log.read(17)][:2] == [17, 18]
        assert log.offset_for_timestamp(MS + 230).offset == 23  # type: ignore[union-attr]
    assert [(folder / f"{base:020d}.index").stat().st_size for base in (22, 46)] == [16, 8]
    assert kinds(folder) == ([], {"older-index-entries", "index-differs"})


def test_a_stated_version_that_the_entries_contradict_is_said_as_such(folder: Path) -> None:
    broker = OlderBroker(folder, INTERVAL)
    for batches in (3, 4):
        append(broker, batches)
    broker.close()
    options = ("verify", folder, "--index-interval-bytes", INTERVAL, "--kafka-version")
    for version in ("3.9.2", "4.0.1", "4.4.0"):
        ended = helpers.run(*options, version)
        assert (ended.exit_code, "No findings" in ended.stdout) == (0, True)
        assert f"contradict what is stated: kafka-version {version}: entry 0 of {folder}/{FIRST}.index" in ended.stderr
    for version in ("0.11.0.3", "3.9.0", "v3.9.0-rc1", "4.0.0", "4.0"):
        ended = helpers.run(*options, version)
        assert (ended.exit_code, "contradict" in ended.stderr) == (0, False)
    ended = helpers.run(*options[:-1])
    assert (ended.exit_code, "contradict" in ended.stderr) == (0, False)
    recover(folder, folder.parent / "out" / "events-0", LogConfig(index_interval_bytes=INTERVAL), sync=False)
    ended = helpers.run("verify", folder.parent / "out" / "events-0", *options[2:], "4.4.0")
    assert (ended.exit_code, "contradict" in ended.stderr) == (0, False)


def test_time_entries_of_brokers_that_name_the_record_itself(folder: Path) -> None:
    """The first one with the largest time; that of another record is wrong."""
    broker = OlderBroker(folder, INTERVAL, own_offsets=True)
    for number in range(5):
        times = [MS + 100 * number + more for more in (0, 70, 30, 70)]
        broker.append(batch_at(6 * number, *times) + batch_at(6 * number + 4, MS, MS))
    broker.close()
    index = folder / f"{FIRST}.timeindex"
    assert kinds(folder)[0] == []
    stored = index.read_bytes()
    assert len(stored) == 12 * 4
    for place in range(11, len(stored), 12):
        for more in (-1, 1, 2):  # newer brokers name the last one, which has that time, too
            index.write_bytes(stored[:place] + bytes([stored[place] + more]) + stored[place + 1 :])
            assert kinds(folder)[0] == ([] if more == 2 else ["time-index-offset"])


def test_an_append_of_more_batches_than_are_checked_at_once(folder: Path) -> None:
    broker = OlderBroker(folder, INTERVAL)
    append(broker, 2)
    append(broker, 2100, 1)
    append(broker, 3)
    broker.close()
    assert kinds(folder)[0] == []
    index = folder / f"{FIRST}.index"
    stored = index.read_bytes()
    assert stored[:4] == (2103).to_bytes(4, "big")
    assert len(stored) == 16
    for last in (2105, 2106, 9999):  # a batch of the next append, no last one, beyond the log
        index.write_bytes(last.to_bytes(4, "big") + stored[4:])
        assert kinds(folder)[0] == ["offset-index-offset"]


def test_an_append_whose_end_is_damaged_is_not_judged(folder: Path) -> None:
    broker = OlderBroker(folder, INTERVAL)
    for batches in (3, 3, 3):
        append(broker, batches)
    broker.close()
    log = folder / f"{FIRST}.log"
    size = len(batch_at(0, MS, MS))
    flip(log, 6 * size - 1)  # the last batch of the second append, which the first entry tells of
    assert kinds(folder)[0] == ["batch-crc"]


# -- all histories of a few batches --------------------------------------------------------------
TIMES = (1, 2, 2, 5, 3, 6)
"""The times of the batches: they rise, stay, and fall."""
ONE_TIME = (1,) * 6
BATCHES = [batch_at(2 * number, MS, MS + at) for number, at in enumerate(TIMES)]
STARTS = [0, *accumulate(map(len, BATCHES))]
Indexes = tuple[bytes, bytes]


def all_indexes() -> Iterator[Indexes]:
    """The .index and the .timeindex after each history of the batches: which of them are appended
    at once, which appends get an entry, and behind which the broker is restarted.

    A newer broker makes an entry as if each batch were an append. The interval may be any.
    """
    count = len(BATCHES)
    for cuts in (cut for number in range(count) for cut in combinations(range(1, count), number)):
        appends = list(pairwise([0, *cuts, count]))
        for choice in product(range(4), repeat=len(appends)):
            if not choice[0] & 1:  # the first append gets no entry
                yield indexes_after(appends, choice)


def indexes_after(appends: list[tuple[int, int]], choice: tuple[int, ...]) -> Indexes:
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    largest = (0, 0)
    for (begin, end), chosen in zip(appends, choice, strict=True):
        for number in range(begin, end):
            if MS + TIMES[number] > largest[0]:
                largest = MS + TIMES[number], 2 * number + 1
        if chosen & 1:
            offsets.append((2 * end - 1, STARTS[begin]))
        is_end = end == len(BATCHES)
        if (chosen or is_end) and (not times or largest[0] > times[-1][0]):
            times.append(largest)
    return (
        encode_offset_entries(np.array(offsets, np.int64).reshape(-1, 2), 0),
        encode_time_entries(np.array(times, np.int64), 0),
    )


@pytest.fixture(scope="module")
def possible() -> list[Indexes]:
    return sorted(set(all_indexes()))


def write(folder: Path, indexes: Indexes, batches: Iterable[bytes] = BATCHES) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{FIRST}.log").write_bytes(b"".join(batches))
    for suffix, data in zip(("index", "timeindex"), indexes, strict=True):
        (folder / f"{FIRST}.{suffix}").write_bytes(data)


@pytest.mark.parametrize(
    ("times", "entries", "stamps", "wrong"),
    [
        (ONE_TIME, [(5, 1), (9, 3), (11, 5)], [0], []),
        (ONE_TIME, [(7, 1), (9, 3), (11, 5)], [0], [0]),  # has the batch that the next entry names
        (ONE_TIME, [(4, 1), (9, 3), (11, 5)], [0], [0]),  # ends within a batch
        (TIMES, [(5, 2)], [1, 5], []),
        (TIMES, [(7, 2)], [1, 5], [0]),  # its largest time has no entry
        (TIMES, [(3, 1), (9, 3)], [1, 3, 5], []),
        (TIMES, [(3, 1), (11, 3)], [1, 3, 5], [8]),  # an entry of a smaller time tells of it
    ],
)
def test_an_append_that_cannot_be(
    folder: Path, times: tuple[int, ...], entries: list[tuple[int, int]], stamps: list[int], wrong: list[int]
) -> None:
    """Entries of the .index with their batch, and batches with an entry in the .timeindex."""
    offsets = np.array([(last, STARTS[place]) for last, place in entries], np.int64)
    largest = np.array([(MS + times[place], 2 * place + 1) for place in stamps], np.int64)
    batches = [batch_at(2 * number, MS, MS + at) for number, at in enumerate(times)]
    write(folder, (encode_offset_entries(offsets, 0), encode_time_entries(largest, 0)), batches)
    found = [(each.check, each.position) for each in run(folder).findings]
    assert found == [("offset-index-offset", at) for at in wrong]


def test_what_a_broker_could_have_written_is_sound(folder: Path, possible: list[Indexes]) -> None:
    assert len(batches_of(b"".join(BATCHES))) == len(TIMES)
    for indexes in some(possible, 1):
        write(folder, indexes)
        assert run(folder).findings == [], indexes


def test_a_flip_is_found_unless_a_broker_could_have_written_it(folder: Path, possible: list[Indexes]) -> None:
    """One that names just its own batch is right by itself: the .timeindex is not held against
    it."""
    known, chance = set(possible), random.Random(5)
    for indexes in some(possible, 1):
        number = chance.randrange(2) if indexes[0] else 1
        at, bit = chance.randrange(len(indexes[number])), chance.randrange(8)
        if number == 0 and at % 8 < 2:
            at += 2  # a low byte, whose flips are less conspicuous
        harmed = bytearray(indexes[number])
        harmed[at] ^= 1 << bit
        changed = (bytes(harmed), indexes[1]) if number == 0 else (indexes[0], bytes(harmed))
        write(folder, changed)
        is_sound = changed in known or (number == 0 and names_its_batch(changed[0], at // 8 * 8))
        assert (run(folder).findings == []) == is_sound, (indexes, changed)


def names_its_batch(index: bytes, at: int) -> bool:
    last, position = OFFSET_INDEX_ENTRY.struct.unpack(index[at : at + 8])
    return position in STARTS and STARTS.index(position) * 2 + 1 == last
