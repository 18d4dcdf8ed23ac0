"""A store as it was at one moment, for reads that take place later and in other processes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from logdex.errors import CorruptError, StoreError, VanishedError
from logdex.io.env import Env
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.commit_log.log_end import UNREADABLE, EndKind, LogEnd
from logdex.rocketmq.commit_log.missing_parts import missing_parts
from logdex.rocketmq.read.parts.behind_damage import error_of
from logdex.rocketmq.scan.log_walk import next_message_start, readable
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.read_mark import ReadMark, is_gone
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot


@dataclass(frozen=True, slots=True)
class FrozenStore:
    """A store as it was when somebody looked at it: its log had the physical offsets [`begin`,
    `end`), in files that follow each other within each of `runs`. `sure_end` is where the first
    damage at its end begins, if `end` is behind that. `damage` is known without reading a message.
    `broker_name` tells several stores apart. By `mark`, its last message, it is known whether the
    log has been cut since."""

    path: str
    broker_name: str
    begin: int
    end: int
    sure_end: int
    runs: tuple[tuple[int, int], ...]
    damage: tuple[CorruptError, ...]
    mark: ReadMark | None = None

    def is_cut(self, config: StoreConfig, env: Env) -> bool:
        """Whether the log was cut since, as far as can be read."""
        return is_gone(self.mark, lambda: CommitLog.of_config(self.path, config, env=env))

    def cut_since(self, error: CorruptError, offset: int, config: StoreConfig, env: Env) -> VanishedError | None:
        """Returns what to tell in place of damage that a reader has met at a physical offset, if it
        is none: a broker that recovers after a crash has cut the log since."""
        if error.field == UNREADABLE:
            return None
        with suppress(StoreError), CommitLog.of_config(self.path, config, env=env) as log:
            if self.mark is not None and self.mark.is_in(log):
                return None
            with StoreSnapshot(self.path, config=config, env=env) as snapshot:
                end = snapshot.valid_end
            if end.is_clean and end.offset < self.sure_end and end.offset <= offset:
                what = f"the log was cut to physical offset {end.offset} before the rest was read"
                return VanishedError(what, path=error.path)
            is_other = readable(log, offset) or next_message_start(log, offset, config, env) != offset
            if self.mark is not None and is_other:
                what = f"the log was cut before physical offset {offset} was read, and has grown again"
                return VanishedError(what, path=error.path)
        return None


def freeze(snapshot: StoreSnapshot, path: str, broker_name: str, *, fail_fast: bool) -> FrozenStore:
    """Returns the present state of a store. A log that ends with damage ends before it if damage is
    to fail, else with its last file, because messages may follow."""
    log, end = snapshot.commit_log, snapshot.valid_end
    damage = [error for *_, error in missing_parts(log)]
    if is_damaged(end) and fail_fast:
        damage.append(error_of(end))
    last = log.end_offset if is_damaged(end) else end.offset
    runs = _runs(snapshot, log.min_offset, last)
    mark = ReadMark.at(log, end.last_message)
    return FrozenStore(path, broker_name, log.min_offset, last, end.offset, runs, tuple(damage), mark)


def freeze_between(snapshot: StoreSnapshot, path: str, broker_name: str, begin: int, end: int) -> FrozenStore:
    """Returns the messages of a store that begin at physical offsets [begin, end), with the damage
    between files there."""
    found = missing_parts(snapshot.commit_log)
    damage = tuple(error for offset, _, error in found if begin <= offset < end)
    mark = ReadMark.at(snapshot.commit_log, snapshot.valid_end.last_message)
    return FrozenStore(path, broker_name, begin, end, end, _runs(snapshot, begin, end), damage, mark)


def is_damaged(end: LogEnd) -> bool:
    """Whether a log ends with damage, and not just with what a crash left unfinished."""
    return not end.is_clean and end.kind is not EndKind.TORN


def _runs(snapshot: StoreSnapshot, begin: int, end: int) -> tuple[tuple[int, int], ...]:
    """Returns the parts of [begin, end) that lie in files which follow each other."""
    log = snapshot.commit_log
    starts = [log.min_offset, *(after for _, after in log.gaps())]
    ends = [*(before for before, _ in log.gaps()), end]
    return tuple((max(a, begin), min(b, end)) for a, b in zip(starts, ends, strict=True) if a <= end and b >= begin)
