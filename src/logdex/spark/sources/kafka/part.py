"""A part of a plan of `kafka_log`, as a task reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from logdex.errors import CorruptError, VanishedError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.read.splits.split import ReadSplit
from logdex.spark.sources.damage import with_hint
from logdex.spark.sources.loss import LOSS_HINT
from logdex.spark.sources.table import OnDamage


@dataclass(frozen=True, slots=True)
class LogPart:
    """A split of one partition. Up to `sure_end`, a position in its file, it is known to have
    batches. It can be pickled."""

    split: ReadSplit
    log_dir: str
    sure_end: int
    fail_on_data_loss: bool

    @property
    def size_bytes(self) -> int:
        """The bytes of the log that it covers."""
        return self.split.size_bytes

    @property
    def constants(self) -> Mapping[str, str]:
        """The values of the columns that are the same in all its rows."""
        return {"logDir": self.log_dir}

    def batches(self, on_damage: OnDamage | None, env: Env = DEFAULT_ENV) -> Iterator[pa.RecordBatch]:
        """Yields the records."""
        on_gone = self._refuse if self.fail_on_data_loss else None
        try:
            end = yield from self.split.to_batches(env=env, on_bad_batch=on_damage, on_gone=on_gone)
            cut = self.split.cut_at(end, self.sure_end, env)
            if cut is not None:
                raise cut
        except VanishedError as error:
            if self.fail_on_data_loss:
                error.hint = LOSS_HINT
                raise
            return
        except CorruptError as error:
            with_hint(error)
            raise
        damage = self.split.damage_at(end, self.sure_end)
        if damage is None:
            return
        if on_damage is None:
            raise with_hint(damage)
        on_damage(damage)

    @staticmethod
    def _refuse(error: VanishedError) -> None:
        raise error
