"""A part of a plan of `rocketmq_store`, as a task reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from logdex.errors import CorruptError, VanishedError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.rocketmq.columns.plain_bodies import with_plain_bodies
from logdex.rocketmq.read.split import ReadSplit
from logdex.rocketmq.snapshot.frozen_store import FrozenStore
from logdex.spark.sources.damage import with_hint
from logdex.spark.sources.loss import LOSS_HINT
from logdex.spark.sources.rocketmq.offsets import QueueTimes
from logdex.spark.sources.table import OnDamage


@dataclass(frozen=True, slots=True)
class StorePart:
    """A split of one store. It can be pickled."""

    split: ReadSplit
    store: FrozenStore
    times: QueueTimes
    raw_bodies: bool
    fail_on_data_loss: bool

    @property
    def size_bytes(self) -> int:
        """The bytes of the log that it covers."""
        return self.split.size_bytes

    @property
    def constants(self) -> Mapping[str, str]:
        """The values of the columns that are the same in all its rows."""
        return {"brokerName": self.store.broker_name}

    def batches(self, on_damage: OnDamage | None, env: Env = DEFAULT_ENV) -> Iterator[pa.RecordBatch]:
        """Yields the messages. The log was known to go on to the end of the split, or to
        `sure_end`, so zeros before that are damage too, unless it was cut since. Raises
        `VanishedError` at the end if it was, because messages then may be of two logs, unless data
        loss is no failure."""

        def on_scan_damage(error: CorruptError) -> None:
            offset = self.split.file.start_offset + error.position
            cut = self.store.cut_since(error, offset, self.split.config, env)
            if cut is not None and self.fail_on_data_loss:
                cut.hint = LOSS_HINT
                raise cut
            if cut is None and on_damage is None:
                raise with_hint(error)
            if cut is None and on_damage is not None:
                on_damage(error)

        split = self.split
        on_trimmed = self._refuse_trimmed if self.fail_on_data_loss else None
        read = split.to_batches(env=env, on_damage=on_damage and on_scan_damage, on_trimmed=on_trimmed)
        while True:
            try:
                batch = self.times.apply(next(read))
            except StopIteration as stopped:
                end = stopped.value
                break
            has_bodies = not self.raw_bodies and "body" in batch.schema.names
            yield from with_plain_bodies(batch, split.file, on_damage) if has_bodies else (batch,)
        error = split.damage_at(end, self.store.sure_end)
        if error is not None:
            on_scan_damage(error)
        if self.fail_on_data_loss and self.store.is_cut(split.config, env):
            what = "the log was cut while it was read, and rows may be of the log before and of the one after"
            raise VanishedError(what, path=self.store.path, hint=LOSS_HINT)

    @staticmethod
    def _refuse_trimmed(path: str) -> None:
        raise VanishedError("a broker has removed the file meanwhile", path=path, hint=LOSS_HINT)
