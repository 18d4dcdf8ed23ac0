"""A `MessageStore` beside what a Python program would embed instead: SQLite with a write-ahead log
and an index on the key, and LMDB. Each stores bodies of 100 B in order and finds them by key."""

from __future__ import annotations

import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa

from benchmarks.measure import remove
from logdex.rocketmq.message.message_id import MessageId
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

SINGLE, SYNCED, BULK, LOOK_UPS = 20_000, 500, 200_000, 5_000
_BODY = b"x" * 100


def others(data: Path, repeats: int, share: float = 1.0) -> Iterator[dict[str, Any]]:
    """Rates per second, by engine: single puts without and with an fsync each, puts in bulk, and
    look-ups of a key. The best of `repeats`, in which the engines take turns. `share` makes the run
    smaller."""
    engines, best = _engines(), dict[str, dict[str, float]]()
    for _ in range(repeats):
        for name, make in engines.items():
            for what, rate in ({} if make is None else _rates(make, data / "embedded", share)).items():
                known = best.setdefault(name, {})
                known[what] = max(known.get(what, 0.0), rate)
    for name, make in engines.items():
        rates = {what: round(rate) for what, rate in best.get(name, {}).items()}
        yield {"what": name} | (rates if make is not None else {"skipped": "pip install lmdb"})
    ours, sqlite = (best[name] for name in ("MessageStore", "SQLite, WAL"))
    yield {"what": "MessageStore / SQLite"} | {what: round(ours[what] / rate, 2) for what, rate in sqlite.items()}
    yield {"what": "look-ups of one message"} | _look_ups(data / "embedded", repeats, share)


def _look_ups(root: Path, repeats: int, share: float) -> dict[str, int]:
    """Other ways to one message, per second: by its MessageID, by queue and offset, and by key in a
    store that is only read. The best of `repeats`."""
    bulk, look_ups = max(int(share * BULK), 4), max(int(share * LOOK_UPS), 1)
    remove(root)
    engine = _Logdex(root, False)
    engine.put_many(range(bulk))
    numbers = range(0, bulk // 4, max(bulk // 4 // look_ups, 1))
    best: dict[str, float] = {}

    def measure(what: str, call: Callable[[int], object]) -> None:
        start = time.perf_counter()
        for number in numbers:
            call(number)
        best[what] = max(best.get(what, 0.0), len(numbers) / (time.perf_counter() - start))

    store = engine.store
    found = store.get_message("T", 0, 0, len(numbers) * (numbers.step + 1))
    ids = {number: str(MessageId(found.messages[0].store_host, found.phy_offsets[number])) for number in numbers}
    for _ in range(repeats):
        measure("look_message_per_s", lambda number: store.look_message(ids[number]))
        measure("get_message_per_s", lambda number: store.get_message("T", 0, number, 1))
    engine.close()
    with StoreSnapshot(str(root)) as snapshot:
        for _ in range(repeats):
            measure("snapshot_query_per_s", lambda number: snapshot.query_message("T", _key(number)))
            measure("snapshot_get_per_s", lambda number: snapshot.get_message("T", 0, number, 1))
    remove(root)
    return {what: round(rate) for what, rate in best.items()}


class _Engine(ABC):
    """One embedded store. With `sync` a put returns when it is on disk."""

    @abstractmethod
    def __init__(self, path: Path, sync: bool) -> None: ...

    @abstractmethod
    def put(self, number: int) -> None:
        """Stores the message with a number, whose key is made of it."""

    @abstractmethod
    def put_many(self, numbers: range) -> None:
        """Stores many at once."""

    @abstractmethod
    def look_up(self, number: int) -> bytes:
        """Returns the body of a message, by its key."""

    @abstractmethod
    def close(self) -> None:
        """Ends the work."""


def _key(number: int) -> str:
    return f"key-{number}"


class _Logdex(_Engine):
    def __init__(self, path: Path, sync: bool) -> None:
        self.store = MessageStore.open(path, flush="sync" if sync else "async")

    def put(self, number: int) -> None:
        self.store.put_message(Message("T", _BODY, keys=_key(number), queue_id=0))

    def put_many(self, numbers: range) -> None:
        keys = [_key(number) for number in numbers]
        self.store.put_columns(pa.table({"topic": ["T"] * len(keys), "keys": keys, "body": [_BODY] * len(keys)}))
        self.store.wait_dispatched()

    def look_up(self, number: int) -> bytes:
        [found] = self.store.query_message("T", _key(number)).messages
        return found.body

    def close(self) -> None:
        self.store.close()


class _Sqlite(_Engine):
    def __init__(self, path: Path, sync: bool) -> None:
        path.mkdir(parents=True)
        self._base = sqlite3.connect(path / "log.db", isolation_level=None)
        self._base.execute("PRAGMA journal_mode=WAL")
        self._base.execute(f"PRAGMA synchronous={'FULL' if sync else 'OFF'}")
        self._base.execute("CREATE TABLE log (offset INTEGER PRIMARY KEY, key TEXT, body BLOB)")
        self._base.execute("CREATE INDEX by_key ON log (key)")

    def put(self, number: int) -> None:
        self._base.execute("INSERT INTO log (key, body) VALUES (?, ?)", (_key(number), _BODY))

    def put_many(self, numbers: range) -> None:
        self._base.execute("BEGIN")
        rows: Iterable[tuple[str, bytes]] = ((_key(number), _BODY) for number in numbers)
        self._base.executemany("INSERT INTO log (key, body) VALUES (?, ?)", rows)
        self._base.execute("COMMIT")

    def look_up(self, number: int) -> bytes:
        [(body,)] = self._base.execute("SELECT body FROM log WHERE key = ?", (_key(number),)).fetchall()
        assert isinstance(body, bytes)
        return body

    def close(self) -> None:
        self._base.close()


class _Lmdb(_Engine):
    def __init__(self, path: Path, sync: bool) -> None:
        path.mkdir(parents=True)
        lmdb = _lmdb()
        assert lmdb is not None
        self._base = lmdb.open(str(path), map_size=1 << 30, max_dbs=2, sync=sync, metasync=sync)
        self._log, self._by_key = (self._base.open_db(name) for name in (b"log", b"by_key"))

    def _add(self, transaction: Any, number: int) -> None:
        offset = number.to_bytes(8, "big")
        transaction.put(offset, _BODY, db=self._log)
        transaction.put(_key(number).encode(), offset, db=self._by_key)

    def put(self, number: int) -> None:
        with self._base.begin(write=True) as transaction:
            self._add(transaction, number)

    def put_many(self, numbers: range) -> None:
        with self._base.begin(write=True) as transaction:
            for number in numbers:
                self._add(transaction, number)

    def look_up(self, number: int) -> bytes:
        with self._base.begin() as transaction:
            body = transaction.get(transaction.get(_key(number).encode(), db=self._by_key), db=self._log)
            assert isinstance(body, bytes)
            return body

    def close(self) -> None:
        self._base.close()


def _lmdb() -> ModuleType | None:
    try:
        import lmdb  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        return None
    assert isinstance(lmdb, ModuleType)
    return lmdb


def _engines() -> dict[str, type[_Engine] | None]:
    return {"MessageStore": _Logdex, "SQLite, WAL": _Sqlite, "LMDB": _Lmdb if _lmdb() else None}


def _rates(make: type[_Engine], path: Path, share: float) -> dict[str, float]:
    single, synced, bulk, look_ups = (max(int(share * count), 1) for count in (SINGLE, SYNCED, BULK, LOOK_UPS))
    rates = {}
    for sync, count, what in ((False, single, "put_per_s"), (True, synced, "synced_put_per_s")):
        remove(path)
        engine = make(path, sync)
        start = time.perf_counter()
        for number in range(count):
            engine.put(number)
        rates[what] = count / (time.perf_counter() - start)
        engine.close()
    remove(path)
    engine = make(path, False)
    start = time.perf_counter()
    engine.put_many(range(bulk))
    rates["bulk_per_s"] = bulk / (time.perf_counter() - start)
    step = max(bulk // look_ups, 1)
    start = time.perf_counter()
    for number in range(0, bulk, step):
        assert engine.look_up(number) == _BODY
    rates["look_ups_per_s"] = len(range(0, bulk, step)) / (time.perf_counter() - start)
    engine.close()
    remove(path)
    return rates
