"""`logdex bench`: how fast this machine reads, rebuilds and looks up a store or a Kafka log."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from logdex.cli.app import app, epilog
from logdex.cli.bench_figures import LOOK_UPS, REBUILD_BYTES_MAX, SCAN_SECONDS_MAX, Figure, better_of_two, print_figures
from logdex.cli.options import JsonOption, StoreOptions, store_command
from logdex.cli.output import emit_json, human_size, note
from logdex.cli.views.kafka.bench import measure_kafka
from logdex.cli.views.kafka.paths import kafka_path
from logdex.cli.views.rocketmq.stores import resolve
from logdex.io.env import DEFAULT_ENV

if TYPE_CHECKING:
    from logdex.kafka.directory.recognise import KafkaPath
    from logdex.rocketmq.commit_log.commit_log import CommitLog
    from logdex.rocketmq.index_file.index_service import IndexService
    from logdex.rocketmq.message.stored_message import StoredMessage
    from logdex.rocketmq.settings.store_config import StoreConfig


@app.command(
    epilog=epilog(
        "logdex bench store",
        "logdex bench store --json",
        "logdex bench logs",
        notes="Each figure is the better of two runs, so files are in the page cache as far as they fit. The rebuild "
        "goes to a temporary folder and is removed. Nothing is written to the store.",
    )
)
@store_command
def bench(
    store: StoreOptions,
    seed: Annotated[int, typer.Option(help="Which messages are looked up.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Measure on this machine: a scan with CRC, a rebuild, look-ups by key; of Kafka by offset and time, and decoding.
    Takes about a minute at most."""
    found, chance = kafka_path(store), random.Random(seed)
    measured = _measure_store(store, chance) if found is None else _measure_logs(found, store, chance)
    figures: list[Figure] = []
    for figure in measured:
        figures.append(figure)
        if as_json:
            emit_json(figure.to_json())
    if not as_json:
        print_figures(figures)


def _measure_logs(found: KafkaPath, store: StoreOptions, chance: random.Random) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="logdex-bench-") as folder:
        yield from measure_kafka(found, store, chance, folder)


def _measure_store(store: StoreOptions, chance: random.Random) -> Iterator[Figure]:
    config, log = resolve(store)
    with log:
        yield from _measure(store.path, config, log, chance)


def _measure(path: str, config: StoreConfig, log: CommitLog, chance: random.Random) -> Iterator[Figure]:
    yield better_of_two(lambda: _scan(config, log))
    size = sum(file.size_bytes for file in log.files)
    if size > REBUILD_BYTES_MAX:
        note(f"no rebuild measured: the CommitLog has {human_size(size)}, more than {human_size(REBUILD_BYTES_MAX)}")
        return
    messages = _sample(config, log, chance)
    yield better_of_two(lambda: _read(log, messages))
    with tempfile.TemporaryDirectory(prefix="logdex-bench-") as folder:
        yield better_of_two(lambda: _rebuild(path, folder, config))
        from logdex.rocketmq.files.store_files import StorePaths
        from logdex.rocketmq.index_file.index_service import IndexService

        with IndexService(StorePaths(folder).index, config) as service:
            yield better_of_two(lambda: _look_up(service, messages))
            yield better_of_two(lambda: _look_up_in_bulk(service, messages))


def _scan(config: StoreConfig, log: CommitLog) -> Figure:
    from logdex.rocketmq.scan.scanner import Scanner

    scanner, size = Scanner(config), 0
    begin = time.perf_counter()
    for window in scanner.scan(log):
        size += int(window.columns.size[: window.count].sum())
        if time.perf_counter() - begin > SCAN_SECONDS_MAX:
            break
    return Figure("scan with CRC", scanner.messages, size, time.perf_counter() - begin)


def _sample(config: StoreConfig, log: CommitLog, chance: random.Random) -> list[tuple[int, StoredMessage]]:
    """Up to LOOK_UPS messages that have a key, with their physical offsets, from all over the log."""
    from logdex.rocketmq.scan.scanner import Scanner

    places: list[int] = []
    begin = time.perf_counter()
    for window in Scanner(config, check_crc=False).scan(log):
        places += window.columns.position[chance.sample(range(window.count), min(window.count, 200))].tolist()
        if time.perf_counter() - begin > SCAN_SECONDS_MAX:
            break
    chosen = chance.sample(places, min(len(places), LOOK_UPS))
    messages = ((place, log.read_message(place)) for place in chosen)
    return [(place, message) for place, message in messages if message.unique_key or message.keys]


def _key(message: StoredMessage) -> bytes:
    return message.unique_key or message.keys[0]


def _read(log: CommitLog, messages: list[tuple[int, StoredMessage]]) -> Figure:
    begin = time.perf_counter()
    size = sum(log.read_message(place).size_bytes for place, _ in messages)
    return Figure("messages by offset", len(messages), size, time.perf_counter() - begin)


def _rebuild(path: str, folder: str, config: StoreConfig) -> Figure:
    from logdex.rocketmq.files.store_files import StorePaths
    from logdex.rocketmq.rebuild import rebuild

    begin = time.perf_counter()
    report = rebuild(path, folder, config, sync=False)
    seconds = time.perf_counter() - begin
    for kept in report.kept.values():
        DEFAULT_ENV.remove_tree(kept)
    assert DEFAULT_ENV.is_dir(StorePaths(folder).index)
    return Figure("rebuild, unsynced", report.messages, report.bytes, seconds)


def _look_up(service: IndexService, messages: list[tuple[int, StoredMessage]]) -> Figure:
    begin = time.perf_counter()
    for _, message in messages:
        service.query_offset(message.topic, _key(message))
    return Figure("look-ups by key", len(messages), 0, time.perf_counter() - begin)


def _look_up_in_bulk(service: IndexService, messages: list[tuple[int, StoredMessage]]) -> Figure:
    by_topic: dict[bytes, list[bytes]] = {}
    for _, message in messages:
        by_topic.setdefault(message.topic, []).append(_key(message))
    begin = time.perf_counter()
    for topic, keys in by_topic.items():
        service.query_offsets_many(topic, keys)
    return Figure("look-ups by key, in bulk", len(messages), 0, time.perf_counter() - begin)
