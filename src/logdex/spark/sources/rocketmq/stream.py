"""The stores that a stream of `rocketmq_store` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial

from logdex.convert.columns.projection import SourceColumn
from logdex.convert.columns.rocketmq import COLUMNS, NAMES
from logdex.errors import CorruptError, UsageError
from logdex.frames.conditions import Conditions
from logdex.io.env import DEFAULT_ENV, Env
from logdex.jobs import look_again
from logdex.rocketmq.read.parts.behind_damage import error_of
from logdex.rocketmq.read.parts.first_messages import count_messages, end_of_first
from logdex.rocketmq.scan.log_walk import next_message_start, readable, walk
from logdex.rocketmq.snapshot.frozen_store import FrozenStore, freeze_between, is_damaged
from logdex.rocketmq.snapshot.read_mark import ReadMark, why_another
from logdex.rocketmq.snapshot.store_end import find_readable_end
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.spark.sources.damage import FAILFAST, with_hint
from logdex.spark.sources.loss import require_no_loss
from logdex.spark.sources.options import Options
from logdex.spark.sources.rocketmq.offsets import BEGIN_PHYSICAL, BEGIN_TIMES, END_PHYSICAL, END_TIMES
from logdex.spark.sources.rocketmq.table import OF_OTHERS, OPTIONS, SOURCE, Look, StoreTable
from logdex.spark.sources.stream_table import (
    Change,
    Ends,
    Known,
    Limits,
    Mark,
    Offsets,
    Place,
    each_limited,
    flat,
    marks_in,
    nested,
)
from logdex.spark.sources.table import ReadOptions, TablePlan

COMMIT_LOG = "commitlog"
"""The second name in an offset, ``{"broker-a": {"commitlog": 1048576}}``."""
_ANOTHER_OR_CUT = "the store may be another one, or was cut and has grown again"
_LOOKS = 10
"""How often a log that ends with damage is looked at: a broker may be writing there."""


class StoreStream:
    """One or several stores. See `LogStream`. An offset is a physical offset of a CommitLog."""

    source = SOURCE

    def __init__(self, given: Mapping[str, str]) -> None:
        options = Options(SOURCE, given, OPTIONS, OF_OTHERS)
        options.refuse_in_streams("endingOffsets", "endingTimestamp", END_TIMES, END_PHYSICAL)
        self.read = ReadOptions.of(options)
        self.limits = Limits.of(options)
        self._given = dict(given)
        word = (options.text("startingOffsets") or "").strip().lower()
        begin_times = (options.text(name) for name in ("startingTimestamp", BEGIN_TIMES))
        self._first = options.integer(BEGIN_PHYSICAL)
        self._from_latest = word in ("", "latest") and all(each is None for each in (self._first, *begin_times))
        if word == "latest":  # a batch read cannot begin there
            self._given = {name: value for name, value in given.items() if name.lower() != "startingoffsets"}
        self._stopped_by: dict[Place, CorruptError] = {}
        self._changed: dict[Place, Change] = {}

    @property
    def columns(self) -> tuple[SourceColumn, ...]:
        """All columns."""
        return self.read.available(COLUMNS)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of a DataFrame whose user asks for none."""
        return self.read.names(NAMES)

    @property
    def stopped_by(self) -> Mapping[Place, CorruptError]:
        """The damage behind which the last result of `latest` does not go."""
        return self._stopped_by

    @property
    def changed(self) -> Mapping[Place, Change]:
        """The logs that were not as their marks say at the last `latest`."""
        return self._changed

    def initial(self, env: Env = DEFAULT_ENV) -> Offsets:
        """Returns the ends of the logs, the first messages from startingPhysicalOffset on, or the
        beginnings if another option says where to begin: then rows before that are left out as they
        are read."""
        begins, ends = self._bounds(env, partial(self._look_from_first, env), is_new=True)
        return ends if self._from_latest else begins

    def latest(self, env: Env = DEFAULT_ENV, known: Known | None = None) -> tuple[Offsets, Offsets]:
        """Returns where the logs begin and end now, and finds which have `changed`."""
        changed: dict[Place, Change] = {}

        def look(snapshot: StoreSnapshot, path: str, name: str) -> FrozenStore:
            found = self._look_at(env, snapshot, path, name)
            change = _change(env, snapshot, known or {}, (name, COMMIT_LOG), found.end)
            if change is not None:
                changed[(name, COMMIT_LOG)] = change
            return found

        bounds = self._bounds(env, look, is_new=False)
        self._changed = changed
        return bounds

    def _bounds(self, env: Env, look: Look, *, is_new: bool) -> tuple[Offsets, Offsets]:
        stores = StoreTable(self._given, env, look, is_new=is_new).stores
        if len({each.broker_name for each in stores}) < len(stores):
            raise UsageError("two stores have one name", hint="option brokerName gives each store a name of its own")
        self._stopped_by = {(each.broker_name, COMMIT_LOG): each.damage[0] for each in stores if each.damage}
        begins = {(each.broker_name, COMMIT_LOG): each.begin for each in stores}
        return nested(begins), nested({(each.broker_name, COMMIT_LOG): each.end for each in stores})

    def _look_at(self, env: Env, snapshot: StoreSnapshot, path: str, name: str) -> FrozenStore:
        """Returns what there is of a store. If damage is to fail, its log ends before the damage at
        its end, which is still there after some looks."""
        end = snapshot.valid_end
        for _ in range(_LOOKS):
            if not is_damaged(end):
                break
            look_again.pause()
            snapshot.refresh()
            end = snapshot.valid_end
        damage: tuple[CorruptError, ...] = ()
        if is_damaged(end):
            if self.read.mode == FAILFAST:
                damage = (with_hint(error_of(end)),)
            else:
                end = find_readable_end(snapshot.root, snapshot.commit_log, end, snapshot.config, env)
        return FrozenStore(path, name, snapshot.commit_log.min_offset, end.offset, end.offset, (), damage)

    def _look_from_first(self, env: Env, snapshot: StoreSnapshot, path: str, name: str) -> FrozenStore:
        found = self._look_at(env, snapshot, path, name)
        if self._first is None or self._first <= found.begin:
            return found
        begin = found.end
        if self._first < begin:
            begin = min(next_message_start(snapshot.commit_log, self._first, snapshot.config, env), begin)
        return replace(found, begin=begin)

    def limited(self, start: Ends, end: Ends, limits: Limits, env: Env = DEFAULT_ENV) -> dict[Place, int]:
        """Returns the ends of a batch that reads at most `limits`, whatever the filters are."""
        found: dict[Place, int] = {}

        def look(snapshot: StoreSnapshot, path: str, name: str) -> FrozenStore:
            place = (name, COMMIT_LOG)
            if place in shares:
                begin, last, share = shares[place]
                found[place] = end_of_first(
                    snapshot.commit_log,
                    snapshot.config,
                    begin,
                    last,
                    messages=share.rows,
                    size_bytes=share.size_bytes,
                    env=env,
                )
            return FrozenStore(path, name, 0, 0, 0, (), ())

        shares: dict[Place, tuple[int, int, Limits]] = {}

        def note(place: Place, begin: int, last: int, share: Limits) -> int:
            shares[place] = begin, last, share
            return last

        whole = each_limited(start, end, limits, note)
        if shares:
            StoreTable(self._given, env, look, is_new=False)
        return {**whole, **found}

    def marks(self, start: Ends, end: Ends, env: Env = DEFAULT_ENV) -> dict[Place, Mark]:
        """Returns the marks of the logs that a batch from `start` to `end` reads: the last message,
        or the first one of the batch where it ends within the log."""
        found: dict[Place, Mark] = {}

        def look(snapshot: StoreSnapshot, path: str, name: str) -> FrozenStore:
            place, log, last = (name, COMMIT_LOG), snapshot.commit_log, snapshot.valid_end
            if place in end:
                at = last.last_message if last.offset == end[place] else None
                if at is None:
                    at, _ = next(walk(log, start[place], snapshot.config, env), (None, None))
                mark = ReadMark.at(log, at if at is None or at < end[place] else None)
                if mark is not None:
                    found[place] = asdict(mark)
            return FrozenStore(path, name, 0, 0, 0, (), ())

        StoreTable(self._given, env, look, is_new=False)
        return found

    def count(self, start: Ends, end: Ends, most: int, env: Env = DEFAULT_ENV) -> int:
        """Returns how many messages are between two offsets of each store, at most `most`."""
        counted = 0

        def look(snapshot: StoreSnapshot, path: str, name: str) -> FrozenStore:
            nonlocal counted
            begin, last = (offsets.get((name, COMMIT_LOG), 0) for offsets in (start, end))
            if begin < last and counted < most:
                log, config = snapshot.commit_log, snapshot.config
                counted += count_messages(log, config, begin, last, most - counted, env)
            return FrozenStore(path, name, 0, 0, 0, (), ())

        StoreTable(self._given, env, look, is_new=False)
        return counted

    def plan(self, start: Offsets, end: Offsets, reads: tuple[str, ...], env: Env = DEFAULT_ENV) -> TablePlan:
        """Returns the plan of the read from `start` to `end`."""
        notes: list[str] = []
        look = partial(self._between, env, start, end, notes)
        table = StoreTable(self._given, env, look, is_new=False)
        missing = {*end} - {each.broker_name for each in table.stores}
        notes += [require_no_loss(self.read, f"the store {name} was deleted meanwhile") for name in sorted(missing)]
        plan = table.plan(reads, Conditions(), env)
        plan.notes = notes + plan.notes
        return plan

    def _between(
        self, env: Env, start: Offsets, end: Offsets, notes: list[str], snapshot: StoreSnapshot, path: str, name: str
    ) -> FrozenStore:
        place, first = (name, COMMIT_LOG), snapshot.commit_log.min_offset
        nothing = FrozenStore(path, name, first, first, first, (), ())
        if name not in end:
            return nothing
        last = flat(end)[place]
        there = self._look_at(env, snapshot, path, name).end
        if there < last:
            what = f"{path}: the log ends at {there} now, messages up to {last} are wanted"
            notes.append(require_no_loss(self.read, what))
            last = there
        change = _change(env, snapshot, end, place, there)
        if change is not None:
            notes.append(require_no_loss(self.read, f"{path}: {change.what}"))
            if change.is_another:
                return nothing
        since = _change(env, snapshot, start, place, there)
        begin = first if since is not None and since.is_another else flat(start).get(place, first)
        if first < begin < last:
            begin = self._begin(env, notes, snapshot, path, begin)
        return freeze_between(snapshot, path, name, min(begin, last), last)

    def _begin(self, env: Env, notes: list[str], snapshot: StoreSnapshot, path: str, begin: int) -> int:
        """Returns where a batch begins that the offsets say to begin at an offset. It is another
        one with failOnDataLoss false, and in a log in which no message begins there."""
        there = next_message_start(snapshot.commit_log, begin, snapshot.config, env)
        if there != begin:
            what = f"{path}: no message begins at physical offset {begin}, where the stream was"
            notes.append(require_no_loss(self.read, f"{what}: {_ANOTHER_OR_CUT}"))
        return there


def _change(env: Env, snapshot: StoreSnapshot, known: Known, place: Place, end: int) -> Change | None:
    """Returns what shows that a log which ends at `end` is not as a stream has read it up to the
    offsets that are known. Where the numbers show it already, None."""
    mark, position = ReadMark.of_json(marks_in(known).get(place, {})), flat(known).get(place)
    log = snapshot.commit_log
    if mark is None or position is None or not log.min_offset <= position <= end:
        return None
    why = why_another(log, mark, position, snapshot.config, env)
    if why is None:
        return None
    first = readable(log, log.min_offset)
    if first is not None and first.store_timestamp_ms > mark.store_timestamp_ms:
        return Change(f"{why}: the store is another one than the stream has read", True)
    return Change(f"{why}: {_ANOTHER_OR_CUT}", False)
