"""An overview of one file beside a segment's .log: an index, a snapshot of producers, a key index,
a checkpoint.

Whether the file agrees with its log is checked by `verify` of the partition. Source:
``docs/formats``: the pages of the files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.directory.recognise import KafkaPath, KafkaPathKind
from logdex.kafka.key_index.reader import KeyIndex
from logdex.kafka.segment.offset_index import OffsetIndex
from logdex.kafka.segment.time_index import TimeIndex
from logdex.kafka.segment.transaction_index import TransactionIndex
from logdex.kafka.snapshot.file_entries import file_entries
from logdex.kafka.state.producer_snapshot import load_producer_snapshot

Facts = dict[str, Any]


@dataclass(slots=True)
class KafkaFileOverview:
    """The overview of one file. `facts` are its values by names that end in their units. `problems`
    are what is wrong with the file, one line per problem."""

    file: KafkaPath
    size_bytes: int
    facts: Facts
    problems: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Returns the object that ``logdex info FILE --json`` prints."""
        kind = self.file.kind.name.lower()
        whole = {"path": self.file.path, "engine": "kafka", "kind": kind, "size_bytes": self.size_bytes}
        return whole | self.facts | {"problems": self.problems}


def file_overview(file: KafkaPath, *, env: Env = DEFAULT_ENV) -> KafkaFileOverview:
    """Returns the overview of a file that goes with a .log. Raises `CorruptError` or a subclass,
    with its location, for damage that shows by itself."""
    return KafkaFileOverview(file, env.size_bytes(file.path), _READERS[file.kind](file, env))


def _ends(index: OffsetIndex | TimeIndex, file: KafkaPath) -> tuple[Facts, Any, Any]:
    """Returns facts about an index, and its first and last entry, each None if there is none."""
    count = index.entries
    first, last = (index.entry(0), index.entry(count - 1)) if count else (None, None)
    return {"base_offset": file.offset, "entries": count}, first, last


def _index(file: KafkaPath, env: Env) -> Facts:
    with OffsetIndex(file.path, file.offset, env=env) as index:
        facts, first, last = _ends(index, file)
        facts |= {"first_offset": first and first.offset, "last_offset": last and last.offset}
        return facts | {"last_position": last and last.position}


def _time_index(file: KafkaPath, env: Env) -> Facts:
    with TimeIndex(file.path, file.offset, env=env) as index:
        facts, first, last = _ends(index, file)
        facts |= {"begin_timestamp_ms": first and first.timestamp_ms, "end_timestamp_ms": last and last.timestamp_ms}
        return facts | {"last_offset": last and last.offset}


def _transaction_index(file: KafkaPath, env: Env) -> Facts:
    with TransactionIndex(file.path, file.offset, env=env) as index:
        aborted = index.all_aborted_txns()
    facts: Facts = {"base_offset": file.offset, "entries": len(aborted)}
    facts |= {"producers": len({each.producer_id for each in aborted})}
    facts |= {"first_offset": min((each.first_offset for each in aborted), default=None)}
    return facts | {"last_offset": max((each.last_offset for each in aborted), default=None)}


def _snapshot(file: KafkaPath, env: Env) -> Facts:
    states = load_producer_snapshot(file.path, env=env)
    open_transactions = sum(state.current_txn_first_offset >= 0 for state in states)
    times = [state.last_timestamp_ms for state in states]
    facts: Facts = {"end_offset": file.offset, "producers": len(states), "open_transactions": open_transactions}
    return facts | {"end_timestamp_ms": max(times, default=None)}


def _key_index(file: KafkaPath, env: Env) -> Facts:
    with KeyIndex.open(file.path, env=env) as index:
        return {name: value for name, value in asdict(index.header).items() if not name.endswith("crc")}


def _checkpoint(file: KafkaPath, env: Env) -> Facts:
    return {"entries": sum(1 for _ in file_entries(file, env=env))}


_READERS: Mapping[KafkaPathKind, Callable[[KafkaPath, Env], Facts]] = {
    KafkaPathKind.INDEX: _index,
    KafkaPathKind.TIME_INDEX: _time_index,
    KafkaPathKind.TXN_INDEX: _transaction_index,
    KafkaPathKind.SNAPSHOT: _snapshot,
    KafkaPathKind.KEY_INDEX: _key_index,
    KafkaPathKind.CHECKPOINT: _checkpoint,
}
