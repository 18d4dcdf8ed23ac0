"""`logdex bench`: how fast this machine reads, rebuilds and looks up a store."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from logdex.cli.app import app, epilog
from logdex.cli.options import JsonOption, StoreOptions, store_command
from logdex.cli.output import emit, emit_json, human_count, human_size, note, table
from logdex.cli.stores import resolve
from logdex.io.env import DEFAULT_ENV

if TYPE_CHECKING:
    from logdex.rocketmq.commit_log import CommitLog
    from logdex.rocketmq.dialect import StoreConfig
    from logdex.rocketmq.index_service import IndexService
    from logdex.rocketmq.message import StoredMessage

REBUILD_BYTES_MAX = 16 << 30
"""A larger log is scanned and looked up only, so that this stays a matter of a minute."""
SCAN_SECONDS_MAX = 15.0
LOOK_UPS = 2_000


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement: how many messages or look-ups, how many bytes (0: not counted), wall time."""

    name: str
    count: int
    size_bytes: int
    seconds: float

    def to_json(self) -> dict[str, object]:
        """The JSON line."""
        return asdict(self) | {
            "per_second": round(self.count / self.seconds, 1),
            "bytes_per_second": round(self.size_bytes / self.seconds, 1) if self.size_bytes else None,
        }


@app.command(
    epilog=epilog(
        "logdex bench store",
        "logdex bench store --json",
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
    """Measure on this machine: a scan with CRC, a rebuild, look-ups by key. Takes less than a minute."""
    config, log = resolve(store)
    figures: list[Figure] = []
    with log:
        for figure in _measure(store.path, config, log, random.Random(seed)):
            figures.append(figure)
            if as_json:
                emit_json(figure.to_json())
    if not as_json:
        _print(figures)


def _measure(path: str, config: StoreConfig, log: CommitLog, chance: random.Random) -> Iterator[Figure]:
    yield _better_of_two(lambda: _scan(config, log))
    size = sum(file.size_bytes for file in log.files)
    if size > REBUILD_BYTES_MAX:
        note(f"no rebuild measured: the CommitLog has {human_size(size)}, more than {human_size(REBUILD_BYTES_MAX)}")
        return
    messages = _sample(config, log, chance)
    yield _better_of_two(lambda: _read(log, messages))
    with tempfile.TemporaryDirectory(prefix="logdex-bench-") as folder:
        yield _better_of_two(lambda: _rebuild(path, folder, config))
        from logdex.rocketmq.index_service import IndexService
        from logdex.rocketmq.store_files import StorePaths

        with IndexService(StorePaths(folder).index, config) as service:
            yield _better_of_two(lambda: _look_up(service, messages))
            yield _better_of_two(lambda: _look_up_in_bulk(service, messages))


def _better_of_two(run: Callable[[], Figure]) -> Figure:
    return min(run(), run(), key=lambda figure: figure.seconds / max(figure.count, 1))


def _scan(config: StoreConfig, log: CommitLog) -> Figure:
    from logdex.rocketmq.scan import Scanner

    scanner, size = Scanner(config), 0
    begin = time.perf_counter()
    for window in scanner.scan(log):
        size += int(window.columns.size[: window.count].sum())
        if time.perf_counter() - begin > SCAN_SECONDS_MAX:
            break
    return Figure("scan with CRC", scanner.messages, size, time.perf_counter() - begin)


def _sample(config: StoreConfig, log: CommitLog, chance: random.Random) -> list[tuple[int, StoredMessage]]:
    """Up to LOOK_UPS messages that have a key, with their physical offsets, from all over the log."""
    from logdex.rocketmq.scan import Scanner

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
    from logdex.rocketmq.rebuild import rebuild
    from logdex.rocketmq.store_files import StorePaths

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


def _print(figures: list[Figure]) -> None:
    emit("On this machine, in one process, the better of two runs each:")
    rows = [
        (
            figure.name,
            human_count(figure.count, "message" if figure.size_bytes else "look-up"),
            f"{figure.seconds:.3f} s",
            f"{figure.count / figure.seconds:,.0f}/s",
            f"{human_size(int(figure.size_bytes / figure.seconds))}/s" if figure.size_bytes else "",
        )
        for figure in figures
    ]
    table(rows, right=(1, 2, 3, 4))
