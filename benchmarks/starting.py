"""Small commands as whole processes: `--help`, and looks into a small and a large store and log.

Each is measured beside `python -c pass` in the same run: processor time, time by the clock, and the
memory that it takes beyond Python's own.

And the first use of each command whose kernels are not compiled yet.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from benchmarks import kafka_data, stores
from benchmarks.measure import judged, remove
from logdex.kafka.log.log import Log
from logdex.kafka.rebuild.job import rebuild as rebuild_log
from logdex.rocketmq.message.message_id import MessageId
from logdex.rocketmq.rebuild import rebuild as rebuild_store
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

HELP_BAR_S, COMMAND_BAR_S, MEMORY_BAR_MB = 0.15, 0.4, 80
FIRST_USE_BAR_S = 10
SMALL, BULK = 1_000, 10_000
_AT_ONCE, _VALUE_BYTES = 100_000, 1024
_LOSSY = 3
_PYTHON = [sys.executable, "-c", "pass"]

_MEASURE = """
import json, os, sys, time
null = os.open(os.devnull, os.O_RDWR)
for line in json.loads(sys.argv[1]):
    start = time.perf_counter()
    pid = os.posix_spawn(line[0], line, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, each) for each in (1, 2)])
    _, status, used = os.wait4(pid, 0)
    print(json.dumps([status, used.ru_utime + used.ru_stime, time.perf_counter() - start, used.ru_maxrss]))
"""
"""A small process starts the commands, because a child has at least the largest memory of its
parent."""


def starting(data: Path, repeats: int, store: str = "8g", gib: int = 8) -> Iterator[dict[str, Any]]:
    """Small directories, then the store `store` and a log of `gib` GiB. `work_s` is the processor
    time of the best run, `seconds` its time by the clock."""
    yield _row("--help", ["--help"], repeats, HELP_BAR_S)
    small = data / "starting"
    remove(small)
    places = ("small", _store("small", small, SMALL), _log(small / "logs", SMALL, _VALUE_BYTES))
    yield from _rows(*places, repeats)
    remove(small)
    records = max((gib << 30) // (_VALUE_BYTES + 40), SMALL)
    yield from _rows(store, _store(store, data, None), _log(data / f"starting-{gib}g", records, _VALUE_BYTES), repeats)


def first_uses(data: Path) -> Iterator[dict[str, Any]]:
    """The first use of each command, with nothing compiled for this machine: how many kernels are
    compiled, and the time of the whole process. `work_s` is its processor time."""
    folder = data / "first-use"
    remove(folder)
    store, logs = str(_store("bulk", folder, BULK)), str(_log(folder / "logs", BULK, _VALUE_BYTES))
    output, kept = str(folder / "output"), folder / "kept"
    commands = [[name, path] for name in ("cat", "verify", "stats") for path in (store, logs)]
    commands += [["cat", path, "--json"] for path in (store, logs)]
    writing = [
        [name, path] for name in ("rebuild", "recover", "export", "filter", "dispatch") for path in (store, logs)
    ]
    writing += [["convert", store, "--to", "kafka"], ["convert", logs, "--to", "rocketmq"]]
    commands += [[*command, "--output", output] for command in writing]
    for command in commands:
        for each in (output, kept):
            remove(Path(each))
        [(status, work, seconds, _)] = _run([[sys.executable, "-m", "logdex", *command]], XDG_CACHE_HOME=str(kept))
        if int(status) >> 8 not in (0, _LOSSY):
            raise RuntimeError(f"{command} failed")
        what = f"{command[0]}{' --json' if '--json' in command else ''}, {'store' if store in command else 'log'}"
        row = {"what": f"first use of {what}", "seconds": round(seconds, 1)}
        row["kernels"] = len([*kept.rglob("*.nbc")])
        yield judged(row, "work_s", work, FIRST_USE_BAR_S, at_most=True)
    remove(folder)


def _rows(size: str, store: Path, logs: Path, repeats: int) -> Iterator[dict[str, Any]]:
    for what, commands in (("store", _store_commands(store)), ("log", _log_commands(logs))):
        for command in commands:
            yield _row(f"{command[0]}, {size} {what}", command, repeats, COMMAND_BAR_S)


def _store_commands(root: Path) -> list[list[str]]:
    """Looks at a message in the middle of the store's first queue."""
    with StoreSnapshot(str(root)) as snapshot:
        queue = min(snapshot.queues(), key=lambda each: (each.topic, each.queue_id))
        topic, offset = queue.topic, (queue.min_offset + queue.max_offset) // 2
        [message] = snapshot.get_message(topic, queue.queue_id, offset, 1).messages
    key, path, name = message.keys[0].decode(), str(root), topic.decode()
    return [
        ["info", path],
        ["cat", path, "--limit", "10"],
        ["get", path, "--topic", name, "--queue", str(queue.queue_id), "--offset", str(offset), "--count", "10"],
        ["message", path, str(MessageId(message.store_host, message.physical_offset))],
        ["query", path, "--topic", name, "--key", key],
    ]


def _log_commands(logs: Path) -> list[list[str]]:
    with Log.open(str(logs / "events-0")) as log:
        middle = log.log_end_offset // 2
    path, key = str(logs), kafka_data.key_column(1, middle).to_pylist()[0].decode()
    place = ["--topic", "events", "--partition", "0"]
    return [
        ["info", path],
        ["cat", path, "--limit", "10"],
        ["get", path, *place, "--offset", str(middle), "--count", "10"],
        ["query", path, "--topic", "events", "--key", key],
    ]


def _store(name: str, data: Path, messages: int | None) -> Path:
    """A store with ConsumeQueues and an index. `messages` is how many a store has that is in no
    specification."""
    spec = stores.SPECS[name] if messages is None else stores.StoreSpec(name, messages, _VALUE_BYTES)
    root = stores.ensure(spec, data)
    if not (root / "index").is_dir():
        rebuild_store(str(root), str(root), StoreConfig(), in_place=True, sync=False)
    return root


def _log(logs: Path, records: int, value_bytes: int) -> Path:
    """A log directory with one partition, whose records have keys, with a key index."""
    partition = logs / "events-0"
    if (partition / kafka_data.LOG_NAME).is_file():
        return logs
    print(f"  making {partition}: {records} records of {value_bytes} bytes", file=sys.stderr, flush=True)
    pool = pa.array([os.urandom(value_bytes) for _ in range(1_000)], pa.binary())
    with Log.open(str(partition)) as log:
        for first in range(0, records, _AT_ONCE):
            count = min(_AT_ONCE, records - first)
            values = pool.take(pa.array([row % len(pool) for row in range(count)]))
            table = pa.table({"key": kafka_data.key_column(count, first), "value": values})
            log.append_columns(table, batch_records=kafka_data.BATCH_RECORDS)
    rebuild_log(str(logs), str(logs), key_index=True, in_place=True, sync=False)
    return logs


# -- measuring -----------------------------------------------------------------------------------
def _row(what: str, command: list[str], repeats: int, bar_s: float) -> dict[str, Any]:
    """The best of some runs, in turns with `python -c pass`."""
    none, mine = measure([_PYTHON, [sys.executable, "-m", "logdex", *command]], repeats)
    memory_mb = mine.memory_mb - none.memory_mb
    row = {"what": what, "seconds": round(mine.seconds, 3), "python_s": round(none.work_s, 3)}
    row |= {"ratio": round(mine.work_s / none.work_s, 1), "mb": round(memory_mb), "mb_bar": MEMORY_BAR_MB}
    row = judged(row, "work_s", mine.work_s, bar_s, at_most=True)
    return row if memory_mb <= MEMORY_BAR_MB else row | {"met": "NO"}


class Used(NamedTuple):
    """What a command used: the least processor time and time by the clock of some runs, and their
    largest memory."""

    work_s: float
    seconds: float
    memory_mb: float


def measure(lines: list[list[str]], repeats: int) -> list[Used]:
    """Runs commands in turns. The first run of each, which may keep what it compiles, is not
    counted. Raises `RuntimeError` if a command fails."""
    found = _run(lines * (repeats + 1))
    failed = [lines[number % len(lines)] for number, (status, *_) in enumerate(found) if status]
    if failed:
        raise RuntimeError(f"{failed[0]} failed")
    used = []
    for number in range(len(lines)):
        _, work, seconds, memory = zip(*found[number + len(lines) :: len(lines)], strict=True)
        used.append(Used(min(work), min(seconds), max(memory) / 1024))
    return used


def _run(lines: list[list[str]], **environ: str) -> list[list[float]]:
    """Runs commands one after the other. Returns of each the status, processor time, time by the
    clock, and memory."""
    environ = {**os.environ, **environ}
    for name in ("PYTHONDONTWRITEBYTECODE", "NUMBA_CACHE_DIR"):
        environ.pop(name, None)
    run = [sys.executable, "-S", "-c", _MEASURE, json.dumps(lines)]
    done = subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True, env=environ)
    return [json.loads(line) for line in done.stdout.splitlines()]
