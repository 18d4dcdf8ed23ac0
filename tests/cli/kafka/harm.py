"""Harming a Kafka log directory's files and running commands and the library on it: what must hold
of each run.

No checksum covers a batch's base offset and leader epoch: a flip there may change the offsets,
leader epoch and order of that batch's records, and nothing else. Everything else that is handed out
must be a record as it was written.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from logdex.errors import LogdexError
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import decode_batch
from logdex.kafka.batch.record_json import record_to_json
from logdex.kafka.log.log import Log
from logdex.kafka.read.record_scan import records_of
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.snapshot.log_dir_snapshot import open_kafka
from logdex.kafka.verify import verify
from tests.cli import helpers
from tests.cli.harm import Run, check_run, take_output, tell
from tests.cli.kafka.tiny_logs import INTERVAL_BYTES, KEY, SETTINGS, TINY_KAFKA, clock_ms
from tests.unit.kafka.batch.batch_bytes import whole_batches

JSON = ["--json", "--values", "base64"]
"""Rows as `record_to_json` makes them."""
COMMANDS: dict[str, list[str]] = {
    "info": ["info", "LOGS"],
    "info partition": ["info", "LOGS/events-0", "--json"],
    "cat": ["cat", "LOGS", *JSON, "--control"],
    "cat committed": ["cat", "LOGS", *JSON, "--isolation-level", "read_committed"],
    "get": ["get", "LOGS", "--topic", "TOPIC", "--partition", "0", "--offset", "FIRST", "--count", "9", *JSON],
    "get by time": ["get", "LOGS/TOPIC-0", "--time", "1700000003000", *JSON],
    "query": ["query", "LOGS", "--topic", "TOPIC", "--key", KEY, *JSON],
    "verify": ["verify", "LOGS", "--index-interval-bytes", str(INTERVAL_BYTES)],
    "rebuild": ["rebuild", "LOGS", "-o", "OUT", "--no-sync", "--index-interval-bytes", str(INTERVAL_BYTES)],
    "recover": ["recover", "LOGS", "-o", "OUT", "--no-sync", "--index-interval-bytes", str(INTERVAL_BYTES)],
}
CONFIG = LogConfig(index_interval_bytes=INTERVAL_BYTES)
ODD_FILES_MAX = 20
"""The store "odd" has fewer files, and begins at offset 99."""


class Batch(NamedTuple):
    """A batch of the whole store: its place, and its records without what no checksum covers."""

    path: Path
    position: int
    size: int
    magic: int
    lines: list[str]
    """As ``cat --json`` prints them."""


@dataclass(frozen=True)
class KafkaStore:
    """A log directory that is harmed and mended again, and what is answered while it is whole."""

    root: Path
    out: Path
    work: Path
    files: list[Path]
    whole: dict[tuple[str, str], Run] = field(default_factory=dict)
    """By (command, topic)."""
    batches: list[Batch] = field(default_factory=list)
    checked: set[tuple[str, bytes]] = field(default_factory=set)
    """The batches as `valid_batches` gives them."""

    def name(self, path: Path) -> str:
        return str(path.relative_to(self.root))

    def topic_of(self, path: Path) -> str:
        """That of a partition's file; of another file the first one's."""
        return path.parent.name.rpartition("-")[0] if path.parent != self.root else "events"

    def batch_at(self, path: Path, byte: int) -> Batch | None:
        """The batch of the whole .log that a byte is of; None in the room behind them."""
        for batch in self.batches:
            if batch.path == path and batch.position <= byte < batch.position + batch.size:
                return batch
        return None


def build(name: str, folder: Path) -> KafkaStore:
    """One of `TINY_KAFKA`, ready to be harmed."""
    root = TINY_KAFKA[name](folder / "logs")
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.stat().st_size)
    store = KafkaStore(root, folder / "out", folder / "work", files)
    for topic in sorted({store.topic_of(path) for path in files}):
        for command in COMMANDS:
            store.whole[command, topic] = run(store, command, topic)
    find_batches(store)
    store.checked.update(valid_batches(root))
    return store


def find_batches(store: KafkaStore) -> None:
    whole = rows_of(store.whole["cat", "events"])
    rows = {(row["topic"], row["partition"], row["offset"]): line for line, row in whole}
    taken = 0
    for path in store.files:
        data, position = path.read_bytes(), 0
        while path.suffix == ".log" and position < len(data) and any(data[position:]):
            batch, size = decode_batch(data, position, path=str(path))
            lines = [rows[store.topic_of(path), 0, record.offset] for record in batch.records()]
            store.batches.append(Batch(path, position, size, batch.magic, lines))
            position, taken = position + size, taken + len(lines)
    assert taken == len(rows) > 0


def rows_of(result: Run) -> list[tuple[str, dict[str, Any]]]:
    return [(line, json.loads(line)) for line in result.stdout.splitlines()]


def run(store: KafkaStore, command: str, topic: str, *, keep_output: bool = False) -> Run:
    """One of `COMMANDS`; what it wrote is taken away unless `keep_output`."""
    first = "101" if topic == "events" and len(store.files) < ODD_FILES_MAX else "3"
    words = {"LOGS": str(store.root), "OUT": str(store.out), "TOPIC": topic, "FIRST": first}
    arguments = [re.sub("LOGS|OUT|TOPIC|FIRST", lambda found: words[found[0]], word) for word in COMMANDS[command]]
    ended = helpers.run(*arguments)
    stdout = helpers.without_end(ended.stdout)
    return Run(ended.exit_code, stdout, ended.stderr, {} if keep_output else take_output(store.out))


def check(store: KafkaStore, command: str, harm: str, topic: str) -> Run:
    """Runs a command on the harmed store; what must hold of every run holds."""
    is_recover = command == "recover"
    result = check_run(
        store.root, lambda: run(store, command, topic, keep_output=is_recover), f"{command} after {harm}"
    )
    told = tell(command, harm, result)
    assert result.exit_code != 2 or str(store.root) in result.stderr, told
    if is_recover:
        check_recovered(store, told)
        result = result._replace(output=take_output(store.out))
    return result


def check_recovered(store: KafkaStore, told: str) -> None:
    """Every batch that is still whole is in the output, and that is clean; of offsets and epochs
    that were harmed, which no checksum covers, an epoch's stays to be told of."""
    lost = valid_batches(store.root) - valid_batches(store.out)
    assert [each for each in lost if each in store.checked] == [], told
    findings = [found for found in verify(str(store.out), CONFIG).findings if found.check != "batch-leader-epoch"]
    assert findings == [], told


def valid_batches(root: Path) -> Counter[tuple[str, bytes]]:
    """(partition, what the checksum covers) of each batch with a right checksum at any position of
    a .log."""
    found: Counter[tuple[str, bytes]] = Counter()
    for path in root.rglob("*.log"):
        for _, raw in whole_batches(path.read_bytes()):
            found[path.relative_to(root).parts[0], raw[16:]] += 1
    return found


def read_arrow(store: KafkaStore) -> list[str] | LogdexError:
    """What `open_kafka` gives of the store as Arrow batches, as lines; or its error."""
    try:
        with open_kafka(str(store.root)) as snapshot:
            table = snapshot.scan(control=True).to_arrow().read_all()
    except LogdexError as error:
        return error
    table.validate(full=True)
    lines = []
    for row, record in zip(table.to_pylist(), (r for b in table.to_batches() for r in records_of(b)), strict=True):
        lines.append(json_line(record, row["topic"], row["partition"]))
    return lines


def json_line(record: Any, topic: str, partition: int) -> str:
    return json.dumps(record_to_json(record, topic=topic, partition=partition), ensure_ascii=False)


def open_log(store: KafkaStore, topic: str) -> tuple[list[str], LogdexError | None]:
    """The records of a copy's partition as `Log` gives them, up to the error if one comes. The log
    then takes a record and gives it back when it is opened again."""
    shutil.copytree(store.root, store.work)
    lines: list[str] = []
    path = str(store.work / f"{topic}-0")
    try:
        with Log.open(path, clock_ms=clock_ms, **SETTINGS) as log:
            for record in log.records(log.log_start_offset, control=True):
                lines.append(json_line(record, topic, 0))
            appended = log.append(Record(b"new", b"new"))
        with Log.open(path, clock_ms=clock_ms, **SETTINGS) as log:
            assert [record.value for record in log.read(appended.first_offset)] == [b"new"]
        return lines, None
    except LogdexError as error:
        return lines, error
    finally:
        shutil.rmtree(store.work)
