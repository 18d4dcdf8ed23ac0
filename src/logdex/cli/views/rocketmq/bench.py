"""`logdex bench` for RocketMQ stores."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from logdex.cli.figures import LOOK_UPS, REBUILD_BYTES_MAX, SCAN_SECONDS_MAX, Figure, better_of_two
from logdex.cli.output import human_size, note
from logdex.io.env import DEFAULT_ENV
from logdex.jobs.work_time import work_seconds

if TYPE_CHECKING:
    from logdex.rocketmq.commit_log.commit_log import CommitLog
    from logdex.rocketmq.index_file.index_service import IndexService
    from logdex.rocketmq.message.stored_message import StoredMessage
    from logdex.rocketmq.recognise.store_path import StorePath
    from logdex.rocketmq.settings.store_config import StoreConfig


def measure(found: StorePath, settings: Mapping[str, Any], chance: random.Random, folder: str) -> Iterator[Figure]:
    """Measures a scan, reads by physical offset, a rebuild into `folder`, and look-ups by key in
    the rebuilt index."""
    from logdex.rocketmq.commit_log.commit_log import CommitLog
    from logdex.rocketmq.geometry.resolve import resolve_config
    from logdex.rocketmq.recognise.require_store import require_store

    path = require_store(found).path
    config = resolve_config(path, **settings)
    with CommitLog.of_config(path, config) as log:
        yield from _measure(path, config, log, chance, folder)


def _measure(path: str, config: StoreConfig, log: CommitLog, chance: random.Random, folder: str) -> Iterator[Figure]:
    yield better_of_two(lambda: _scan(config, log))
    if log.size_bytes > REBUILD_BYTES_MAX:
        size, bound = human_size(log.size_bytes), human_size(REBUILD_BYTES_MAX)
        note(f"no rebuild measured: the CommitLog has {size}, more than {bound}")
        return
    messages = _sample(config, log, chance)
    yield better_of_two(lambda: _read(log, messages))
    yield better_of_two(lambda: _rebuild(path, folder, config))
    from logdex.rocketmq.files.store_files import StorePaths
    from logdex.rocketmq.index_file.index_service import IndexService

    with IndexService(StorePaths(folder).index, config) as service:
        yield better_of_two(lambda: _look_up(service, messages))
        yield better_of_two(lambda: _look_up_in_bulk(service, messages))


def _scan(config: StoreConfig, log: CommitLog) -> Figure:
    from logdex.rocketmq.scan.scanner import Scanner

    scanner, size = Scanner(config), 0
    begin = work_seconds()
    for window in scanner.scan(log):
        size += int(window.columns.size[: window.count].sum())
        if work_seconds() - begin > SCAN_SECONDS_MAX:
            break
    return Figure("scan with CRC", scanner.messages, size, work_seconds() - begin)


def _sample(config: StoreConfig, log: CommitLog, chance: random.Random) -> list[tuple[int, StoredMessage]]:
    """Returns up to LOOK_UPS messages that have a key, with their physical offsets, spread over the
    log."""
    from logdex.rocketmq.scan.scanner import Scanner

    places: list[int] = []
    begin = work_seconds()
    for window in Scanner(config, check_crc=False).scan(log):
        places += window.columns.position[chance.sample(range(window.count), min(window.count, 200))].tolist()
        if work_seconds() - begin > SCAN_SECONDS_MAX:
            break
    chosen = chance.sample(places, min(len(places), LOOK_UPS))
    messages = ((place, log.read_message(place)) for place in chosen)
    return [(place, message) for place, message in messages if message.unique_key or message.keys]


def _key(message: StoredMessage) -> bytes:
    return message.unique_key or message.keys[0]


def _read(log: CommitLog, messages: list[tuple[int, StoredMessage]]) -> Figure:
    begin = work_seconds()
    size = sum(log.read_message(place).size_bytes for place, _ in messages)
    return Figure("messages by offset", len(messages), size, work_seconds() - begin)


def _rebuild(path: str, folder: str, config: StoreConfig) -> Figure:
    from logdex.rocketmq.files.store_files import StorePaths
    from logdex.rocketmq.rebuild import rebuild

    begin = work_seconds()
    report = rebuild(path, folder, config, sync=False)
    seconds = work_seconds() - begin
    for kept in report.kept.values():
        DEFAULT_ENV.remove_tree(kept)
    assert DEFAULT_ENV.is_dir(StorePaths(folder).index)
    return Figure("rebuild, unsynced", report.messages, report.bytes, seconds)


def _look_up(service: IndexService, messages: list[tuple[int, StoredMessage]]) -> Figure:
    begin = work_seconds()
    for _, message in messages:
        service.query_offset(message.topic, _key(message))
    return Figure("look-ups by key", len(messages), 0, work_seconds() - begin)


def _look_up_in_bulk(service: IndexService, messages: list[tuple[int, StoredMessage]]) -> Figure:
    by_topic: dict[bytes, list[bytes]] = {}
    for _, message in messages:
        by_topic.setdefault(message.topic, []).append(_key(message))
    begin = work_seconds()
    for topic, keys in by_topic.items():
        service.query_offsets_many(topic, keys)
    return Figure("look-ups by key, in bulk", len(messages), 0, work_seconds() - begin)
