"""A RocketMQ store as the source of a conversion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa

from logdex.convert.sources.source import (
    Marks,
    OnLoss,
    Positions,
    SourcePlan,
    another_log,
    ends_before,
    filter_json,
    told,
)
from logdex.errors import CorruptError, StoreError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.jobs.look_again import LOOKS_MAX
from logdex.jobs.reports import Gone
from logdex.rocketmq.columns.plain_bodies import NEEDED_COLUMNS, with_plain_bodies
from logdex.rocketmq.commit_log.log_end import EndKind, LogEnd
from logdex.rocketmq.read.parts.behind_damage import error_of
from logdex.rocketmq.read.read_filter import ReadFilter
from logdex.rocketmq.read.split import ReadSplit
from logdex.rocketmq.rebuild.source import require_whole_log
from logdex.rocketmq.snapshot.frozen_store import FrozenStore, freeze_between, is_damaged
from logdex.rocketmq.snapshot.read_mark import ReadMark, why_another
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

LOG = "commitlog"


@dataclass(frozen=True, slots=True)
class StorePart:
    """A split of a store."""

    split: ReadSplit
    store: FrozenStore

    @property
    def size_bytes(self) -> int:
        """The bytes of the log that it covers."""
        return self.split.size_bytes

    def batches(self, on_loss: OnLoss, env: Env = DEFAULT_ENV) -> Iterator[pa.RecordBatch]:
        """Yields the messages, with their bodies decompressed."""

        def on_damage(error: CorruptError) -> None:
            on_loss(told(error))

        def on_scan_damage(error: CorruptError) -> None:
            offset = self.split.file.start_offset + error.position
            cut = self.store.cut_since(error, offset, self.split.config, env)
            on_loss(told(error) if cut is None else Gone(cut.message))

        def on_trimmed(path: str) -> None:
            on_loss(Gone(f"{path}: a broker removed the file before it was read"))

        split = self.split
        read = split.to_batches(env=env, on_damage=on_scan_damage, on_trimmed=on_trimmed)
        while True:
            try:
                batch = next(read)
            except StopIteration as stopped:
                damage = split.damage_at(stopped.value, self.store.sure_end)
                break
            if "body" in batch.schema.names:
                yield from with_plain_bodies(batch, split.file, on_damage)
            else:
                yield batch
        if damage is not None:
            on_scan_damage(damage)


@dataclass(frozen=True, slots=True)
class StoreSource:
    """The messages of a store, or of one CommitLog file, that pass a filter. `settings` are the
    keyword arguments of `logdex.open`."""

    path: str
    wanted: ReadFilter = field(default_factory=ReadFilter)
    settings: Mapping[str, Any] = field(default_factory=dict)
    format: str = "rocketmq"

    @property
    def filter(self) -> Mapping[str, Any]:
        """The filter as JSON."""
        wanted = self.wanted
        queues = sorted(wanted.queue_ids or ())
        return filter_json(
            topic=None if wanted.topic is None else wanted.topic.decode("utf-8", "backslashreplace"),
            queue=queues[0] if len(queues) == 1 else queues or None,
            begin_ms=wanted.begin_ms,
            end_ms=wanted.end_ms,
            offset=wanted.begin_queue_offset,
            physical_offset=wanted.begin_offset,
        )

    def plan(
        self,
        columns: tuple[str, ...],
        since: Positions,
        split_bytes: int,
        env: Env = DEFAULT_ENV,
        *,
        marks: Marks | None = None,
    ) -> SourcePlan:
        """Plans a read. See `LogSource`."""
        needed = NEEDED_COLUMNS if "body" in columns else ()
        columns = tuple(dict.fromkeys((*columns, *needed)))
        require_whole_log(self.path, env)
        with StoreSnapshot(self.path, env=env, **self.settings) as snapshot:
            begin = since.get(LOG)
            end, frozen = self._frozen(snapshot, begin or 0)
            plan = SourcePlan(positions={LOG: frozen.end}, losses=[told(error) for error in frozen.damage])
            if is_damaged(end):
                plan.losses.append(f"{told(error_of(end))}; what may be behind it is not read")
            if end.kind is EndKind.TORN:
                plan.notes.append(end.description)
            if begin is not None and begin > frozen.end:
                raise ends_before(self.path, "the CommitLog", frozen.end, begin)
            if begin is not None:
                self._require_same(snapshot, (marks or {}).get(LOG, {}), begin, env)
            if frozen.mark is not None:
                plan.marks[LOG] = asdict(frozen.mark)
            if begin is not None and begin < frozen.begin:
                gone = f"offsets {begin} to {frozen.begin} were removed before they were read"
                plan.losses.append(Gone(f"{self.path}: {gone}"))
            first = max((each for each in (begin, self.wanted.begin_offset) if each is not None), default=0)
            for low, high in frozen.runs:
                if max(low, first) < high:
                    wanted = replace(self.wanted, begin_offset=max(low, first), end_offset=high)
                    read = snapshot.plan_read(wanted, columns=columns, split_bytes=split_bytes)
                    plan.parts += [StorePart(split, frozen) for split in read.splits]
        return plan

    def _frozen(self, snapshot: StoreSnapshot, since: int) -> tuple[LogEnd, FrozenStore]:
        """Returns where the log ends, and the store from `since` up to there. Where the log is cut
        meanwhile, it is looked at again."""
        for _ in range(LOOKS_MAX):
            end = snapshot.valid_end
            begin = max(snapshot.commit_log.min_offset, since)
            frozen = freeze_between(snapshot, self.path, "", begin, end.offset)
            if frozen.mark is not None or end.last_message is None:
                break
            snapshot.refresh()
        return end, frozen

    def still_holds(self, plan: SourcePlan, env: Env = DEFAULT_ENV) -> bool:
        """Whether the log has not been cut since a plan was made. See `LogSource`."""
        mark = ReadMark.of_json(plan.marks.get(LOG, {}))
        if mark is not None:
            with suppress(StoreError), StoreSnapshot(self.path, env=env, **self.settings) as snapshot:
                return mark.is_in(snapshot.commit_log)
        return True

    def _require_same(self, snapshot: StoreSnapshot, mark: Mapping[str, Any], begin: int, env: Env) -> None:
        why = why_another(snapshot.commit_log, ReadMark.of_json(mark), begin, snapshot.config, env)
        if why is not None:
            raise another_log(self.path, "the CommitLog", why)
