"""`logdex bench` for Kafka paths."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from logdex.cli.figures import LOOK_UPS, REBUILD_BYTES_MAX, SCAN_SECONDS_MAX, Figure, better_of_two
from logdex.cli.output import human_size, note
from logdex.errors import CorruptError
from logdex.io.env import DEFAULT_ENV
from logdex.jobs.work_time import work_seconds

if TYPE_CHECKING:
    from logdex.kafka.directory.recognise import KafkaPath
    from logdex.kafka.rebuild.source import RebuildSource
    from logdex.kafka.segment.log_segment import LogSegment

_SAMPLED_A_WINDOW = 200


def measure(found: KafkaPath, settings: Mapping[str, Any], chance: random.Random, folder: str) -> Iterator[Figure]:
    """Measures a scan, decoding, a rebuild into `folder`, and look-ups in the largest segment
    through its indexes."""
    from logdex.kafka.rebuild.source import find_source
    from logdex.kafka.segment.log_segment import LogSegment
    from logdex.kafka.settings.log_config import LogConfig

    source = find_source(found, DEFAULT_ENV)
    yield better_of_two(lambda: _scan(source))
    yield better_of_two(lambda: _decode(source))
    if source.size_bytes <= REBUILD_BYTES_MAX:
        yield better_of_two(lambda: _rebuild(found, settings, f"{folder}/out"))
    else:
        note(
            f"no rebuild measured: the logs have {human_size(source.size_bytes)}, more than "
            f"{human_size(REBUILD_BYTES_MAX)}"
        )
    largest = max(source.segments, key=lambda segment: segment.size_bytes)
    offsets, times = _sample(largest.path, chance)
    if not offsets:
        return
    directory = largest.path.rpartition("/")[0]
    with LogSegment(directory, largest.base_offset, LogConfig(**settings)) as segment:
        try:
            yield from _look_ups(segment, offsets, times)
        except CorruptError as error:
            note(f"no look-ups measured: {error.message}")


def _scan(source: RebuildSource) -> Figure:
    from logdex.kafka.scan.scanner import BatchScanner

    count = size = 0
    begin = work_seconds()
    for segment in source.segments:
        for window in BatchScanner().scan_file(segment.path):
            count += int(abs(window.columns.count).sum())
            size += int(window.columns.size.sum())
        if work_seconds() - begin > SCAN_SECONDS_MAX:
            break
    return Figure("scan with CRC", count, size, work_seconds() - begin)


def _decode(source: RebuildSource) -> Figure:
    from logdex.kafka.columns.record_columns import read_record_batches

    count = size = 0
    begin = work_seconds()
    for segment in source.segments:
        for batch in read_record_batches(segment.path, on_bad_batch=lambda error: None):
            count += batch.num_rows
        size += segment.size_bytes
        if work_seconds() - begin > SCAN_SECONDS_MAX:
            break
    return Figure("decode to Arrow", count, size, work_seconds() - begin)


def _rebuild(found: KafkaPath, settings: Mapping[str, Any], output: str) -> Figure:
    from logdex.kafka.rebuild import rebuild

    begin = work_seconds()
    report = rebuild(found, output, index_interval_bytes=settings.get("index_interval_bytes"), sync=False)
    seconds = work_seconds() - begin
    DEFAULT_ENV.remove_tree(output)
    return Figure("rebuild, unsynced", report.messages, report.bytes, seconds)


def _sample(path: str, chance: random.Random) -> tuple[list[int], list[int]]:
    """Returns up to LOOK_UPS offsets and as many timestamps of batches, spread over a segment."""
    from logdex.kafka.scan.scanner import BatchScanner

    offsets: list[int] = []
    times: list[int] = []
    for window in BatchScanner(check_crc=False).scan_file(path):
        chosen = chance.sample(range(window.count), min(window.count, _SAMPLED_A_WINDOW))
        offsets += window.columns.last_offset[chosen].tolist()
        times += window.columns.max_timestamp_ms[chosen].tolist()
    count = LOOK_UPS if offsets else 0
    return chance.choices(offsets, k=count), chance.choices(times, k=count)


def _look_ups(segment: LogSegment, offsets: list[int], times: list[int]) -> Iterator[Figure]:
    def offsets_one_by_one() -> None:
        for offset in offsets:
            segment.translate_offset(offset)

    def times_one_by_one() -> None:
        for timestamp_ms in times:
            segment.find_offset_by_timestamp(timestamp_ms)

    for name, run in (
        ("look-ups by offset", offsets_one_by_one),
        ("look-ups by offset, in bulk", lambda: segment.translate_offsets(offsets)),
        ("look-ups by time", times_one_by_one),
        ("look-ups by time, in bulk", lambda: segment.find_offsets_by_timestamps(times)),
    ):

        def measured(name: str = name, run: object = run) -> Figure:
            begin = work_seconds()
            run()  # type: ignore[operator]
            return Figure(name, len(offsets), 0, work_seconds() - begin)

        yield better_of_two(measured)
