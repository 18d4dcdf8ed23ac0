"""Counts by topic, queue and hour, and by key, with bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

KEYS_MAX = 100_000
"""How many keys are counted at once. Beyond them the least frequent half is forgotten."""
_JOINED_MAX = 64
_PLACES = ["topic", "queue", "hour"]
_KEYS = ["topic", "key"]


@dataclass(slots=True)
class Counts:
    """The counts of some rows. `places` has a row per topic, queue and hour, `keys` a row per topic
    and key; both with the columns `messages` and `bytes`."""

    places: pa.Table | None = None
    keys: pa.Table | None = None
    keys_are_exact: bool = True
    _waiting: list[tuple[pa.Table, pa.Table]] = field(default_factory=list)

    def add(self, topics: pa.Array, queues: pa.Array, times_ms: pa.Array, sizes: pa.Array, keys: pa.Array) -> None:
        """Counts rows. `keys` has a list of texts or bytes for each."""
        hours = pa.array(np.floor_divide(times_ms.to_numpy(), 3_600_000))
        ones = pa.array(np.ones(len(topics), np.int64))
        texts = topics.dictionary_decode() if pa.types.is_dictionary(topics.type) else topics
        names = [*_PLACES, "messages", "bytes"]
        places = pa.table([texts, queues.cast(pa.int64()), hours, ones, sizes.cast(pa.int64())], names)
        rows = pc.list_parent_indices(keys)
        flat = [
            texts.take(rows),
            pc.list_flatten(keys).cast(pa.binary()),
            ones.take(rows),
            sizes.cast(pa.int64()).take(rows),
        ]
        by_key = pa.table(flat, [*_KEYS, "messages", "bytes"])
        self._waiting.append((_summed(places, _PLACES), _summed(by_key, _KEYS)))
        if len(self._waiting) >= _JOINED_MAX:
            self.join()

    def take_in(self, other: Counts) -> None:
        """Adds the counts of another part."""
        other.join()
        self.keys_are_exact &= other.keys_are_exact
        if other.places is not None and other.keys is not None:
            self._waiting.append((other.places, other.keys))
            self.join()

    def join(self) -> None:
        """Sums what was counted so far."""
        if not self._waiting:
            return
        places = [each for each, _ in self._waiting] + ([] if self.places is None else [self.places])
        keys = [each for _, each in self._waiting] + ([] if self.keys is None else [self.keys])
        self._waiting = []
        self.places = _summed(pa.concat_tables(places), _PLACES)
        self.keys = _summed(pa.concat_tables(keys), _KEYS)
        if len(self.keys) > KEYS_MAX:
            order = pc.sort_indices(self.keys, [("messages", "descending"), *((name, "ascending") for name in _KEYS)])
            self.keys = self.keys.take(order[: KEYS_MAX // 2])
            self.keys_are_exact = False

    def top_keys(self, count: int) -> pa.Table | None:
        """Returns the most frequent keys."""
        if self.keys is None:
            return None
        order = pc.sort_indices(self.keys, [("messages", "descending"), *((name, "ascending") for name in _KEYS)])
        return self.keys.take(order[:count])


def _summed(table: pa.Table, names: list[str]) -> pa.Table:
    found = table.group_by(names, use_threads=False).aggregate([("messages", "sum"), ("bytes", "sum")])
    return found.select([*names, "messages_sum", "bytes_sum"]).rename_columns([*names, "messages", "bytes"])
