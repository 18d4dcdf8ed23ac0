"""What a key index states of its .log: which changes of the log are seen on opening, which by
verify."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.io.env import DEFAULT_ENV
from logdex.kafka.batch.batch_writer import encode_batch
from logdex.kafka.batch.legacy import write_message
from logdex.kafka.batch.record import Record
from logdex.kafka.key_index import KeyIndex
from logdex.kafka.key_index.build import build_key_index
from logdex.kafka.key_index.covered_log import CoveredLog, read_covered_log
from logdex.layout.kafka import KEY_INDEX_TAIL_SIZE_BYTES, RECORD_BATCH
from logdex.primitives.crc32c import crc32c_by_table

TAIL = KEY_INDEX_TAIL_SIZE_BYTES


def batch(offset: int, size: int = 10) -> bytes:
    return encode_batch([Record(b"key", bytes(size), 1)], base_offset=offset)


def plain(batches: list[bytes]) -> CoveredLog:
    """The twin of `read_covered_log`."""
    heads = [each[: RECORD_BATCH.size_bytes] for each in batches]
    places = [sum(map(len, batches[:number])) for number in range(len(batches))]
    size = sum(map(len, batches))
    in_tail = [number for number, at in enumerate(places) if at >= size - TAIL] or [len(batches) - 1]
    first = in_tail[0] if batches else 0
    crcs = crc32c_by_table(b"".join(heads)), crc32c_by_table(b"".join(heads[first:]))
    return CoveredLog(size, len(batches), crcs[0], places[first] if batches else 0, crcs[1])


LEGACY = [write_message(offset, offset % 2, 0, 1, b"k", b"v") for offset in range(9)]


@pytest.mark.parametrize(
    "batches",
    [
        [],
        [batch(0)],
        LEGACY,
        [*LEGACY, batch(9)],
        [batch(0), batch(1, TAIL)],
        [batch(0), batch(1, TAIL - len(batch(0, TAIL)) + TAIL), batch(2)],
        [batch(offset, 2000) for offset in range(300)],
        [batch(offset) for offset in range(5000)],
    ],
    ids=["none", "one", "legacy", "mixed", "last is large", "before the last is the tail", "tail", "windows"],
)
def test_what_headers_state(batches: list[bytes], tmp_path: Path) -> None:
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(b"".join(batches) + b"torn")
    found = read_covered_log(str(log), log.stat().st_size - 4, DEFAULT_ENV)
    assert found == plain(batches)
    log.with_suffix(".keyindex").write_bytes(build_key_index(str(log)).tobytes())
    with KeyIndex.open(log.with_suffix(".keyindex")) as index:
        assert index.header.covered == found
        assert index.was_built_from(log)
        assert index.covers(log) == found.log_size


def test_every_header_counts_for_verify_and_the_last_ones_for_a_query(tmp_path: Path) -> None:
    batches = [batch(offset, 900) for offset in range(1000)]
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(b"".join(batches))
    log.with_suffix(".keyindex").write_bytes(build_key_index(str(log)).tobytes())
    with KeyIndex.open(log.with_suffix(".keyindex")) as index:
        tail = index.header.tail_position // len(batches[0])
        assert 1000 - tail == TAIL // len(batches[0])
        for number in (0, 500, tail - 1, tail, 999):
            changed = [*batches]
            changed[number] = encode_batch([Record(b"kez", bytes(900), 1)], base_offset=number)
            log.write_bytes(b"".join(changed))
            assert not index.was_built_from(log)
            assert (index.covers(log) > 0) == (number < tail)
        log.write_bytes(b"".join([*batches[:400], *batches[401:], batch(1000, 900)]))
        assert not index.covers(log)
        log.write_bytes(b"".join([*batches, batch(1000)]))
        assert index.covers(log) == sum(map(len, batches))


def test_opening_reads_a_bounded_part_of_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(b"".join(batch(offset, 900) for offset in range(3000)))
    log.with_suffix(".keyindex").write_bytes(build_key_index(str(log)).tobytes())
    seen: list[int] = []

    def watched(window: object) -> memoryview:
        seen.append(window.count)  # type: ignore[attr-defined]
        return headers(window)  # type: ignore[arg-type]

    with KeyIndex.open(log.with_suffix(".keyindex")) as index:
        from logdex.kafka.key_index import covered_log

        headers = covered_log._headers
        monkeypatch.setattr(covered_log, "_headers", watched)
        assert index.covers(log)
    assert sum(seen) <= TAIL // 900
