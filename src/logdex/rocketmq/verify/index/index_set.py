"""Compares all IndexFiles with the log, in both directions. The entries on disk must be the log's
keys in order, so entries and keys are read side by side. Where they differ, the shortest
explanation is chosen: a damaged entry, a missing entry or an extra entry."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from logdex.errors import MissingFileError, UnreadableError
from logdex.io.env import Env
from logdex.primitives.shown import counted
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.geometry.resolve import index_file_paths
from logdex.rocketmq.index_file.index_keys import message_key_hashes
from logdex.rocketmq.index_file.index_paths import is_unfilled
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify.at_start import AtStart
from logdex.rocketmq.verify.checks import Collector
from logdex.rocketmq.verify.damage import Damage
from logdex.rocketmq.verify.index.index_check import IndexCheck, SlotCounting
from logdex.rocketmq.verify.index.index_disk import IndexDisk, IndexRows
from logdex.rocketmq.verify.index.keys_without_entries import KeyRange, KeysWithoutEntries
from logdex.rocketmq.verify.index.log_keys import LogKeys
from logdex.rocketmq.verify.index.unmatched_entries import UnmatchedEntries
from logdex.rocketmq.verify.proven.runs import ProvenRun

_LOOK_AHEAD_ROWS = 4096
_LAST_ROWS = 1 << 16
_CHANGES_MAX = 64
"""How often the version that wrote the entries may change."""
_STEPS_MAX = 50_000
"""The number of differences that are examined one by one. With more, the files belong to another
log."""


class IndexSet:
    """Checks the IndexFiles against the windows of the log, given in order. Not thread-safe. The
    owner must call `close`."""

    def __init__(
        self,
        root: str,
        config: StoreConfig,
        log: CommitLog,
        damage: Damage,
        out: Collector,
        env: Env,
        at_start: AtStart,
    ) -> None:
        self._directory = StorePaths(root).index
        self._at_start = at_start
        self._paths = list(at_start.index_headers) if at_start.index_headers else index_file_paths(root, env)
        self._config = config
        self._log = log
        self._damage = damage
        self._out = out
        self._env = env
        self._is_unclean = at_start.is_unclean
        self._place = 0
        self._check: IndexCheck | None = None
        self._end_ms: int | None = None if log.min_offset else 0
        self._last_has_room = False
        self._is_excused = False  # an unreadable file precedes the next match
        self._lacks = KeysWithoutEntries(root, config, log, out, env)
        self._others = UnmatchedEntries(config, log, damage, out)
        self._slot_counting = SlotCounting()
        self._steps = 0
        self._changes = 0
        self.tags_in_index = config.dialect.tags_in_index
        """Whether the next entries are those of a version that indexes tags (from 5.4.0)."""

    # -- the files, one after the other -----------------------------------------------------------
    def _rows(self, count: int) -> IndexRows | None:
        """Returns the next entries, at most `count` and all of one file; None after the last
        one."""
        while True:
            check = self._check
            try:
                if check is not None and check.has_more():
                    return check.disk.rows(check.next, check.room(count))
                self._end_file()
            except UnreadableError as error:
                self._leave(error)
            if self._place == len(self._paths):
                return None
            self._open(self._paths[self._place])
            self._place += 1

    def fits(self, run: ProvenRun) -> bool:
        """Whether the next entries are those at the beginning of a run."""
        span, check = run.index, self._check
        if run.tags_in_index != self.tags_in_index:
            return False
        if span is None:
            return True
        if not span.path:
            return check is None and self._place == len(self._paths)
        return check is not None and check.disk.path == span.path and check.fits(span.first, span.end)

    def put_proven(self, run: ProvenRun) -> None:
        """Takes a run that fits, as `put` takes its windows."""
        span, check = run.index, self._check
        if span is None:
            return
        if check is None:
            if not self._is_excused:
                self._lacks.add_behind(span.keys, self._directory, has_room=self._last_has_room)
            return
        try:
            check.put_proven(span.end, span.keys.last_ms)
            self._is_excused = False
        except UnreadableError as error:
            self._leave(error)

    def _open(self, path: str) -> None:
        self._out.files += 1
        expected = self._config.index_file_size_bytes
        try:
            size = self._env.size_bytes(path)
            if size == expected:
                disk = IndexDisk(path, self._config, self._env)
                self._check = IndexCheck(disk, self._end_ms, self._config, self._out, self._others.suspect_time)
                self._check.slot_counting = self._slot_counting
                self._check.at_start = self._at_start.header_of(path)
                return
        except MissingFileError:  # a broker has removed it meanwhile
            self._is_excused, self._end_ms = True, None
            return
        except UnreadableError as error:
            self._leave(error)
            return
        is_new = self._is_unclean and self._place == len(self._paths) - 1
        if is_new and (not size or is_unfilled(path, self._env)):
            return  # a broker makes it just now, or was killed when it did
        self._out.find(
            "index-file-size",
            path,
            size,
            "an IndexFile of another size",
            expected=expected,
            found=size,
            mend=f"{self._out.rebuild}; state --max-hash-slot-num and --max-index-num if no other IndexFile shows them",
        )
        self._is_excused, self._end_ms = True, None

    def _leave(self, error: UnreadableError) -> None:
        """Reports a file that cannot be read, and leaves it. Keys without entries are then none of
        the next files' fault."""
        self.close()
        self._out.find_error("unreadable", error, self._out.rebuild)
        self._is_excused, self._end_ms = True, None

    def _end_file(self) -> None:
        check = self._check
        if check is not None:
            mark = self._out.mark()
            check.finish()
            try:
                check.disk.require_readable()
            except UnreadableError:
                self._out.back_to(mark)
                raise
            self._check = None
            self._last_has_room = check.has_room
            self._lacks.saw(check.disk.header[1])
            if check.next > 1:
                self._end_ms = check.end_ms if check.end_ms is not None else check.disk.header[1]
            check.disk.close()

    def close(self) -> None:
        """Unmaps the open file."""
        if self._check is not None:
            self._check.disk.close()
            self._check = None

    # -- walking side by side ---------------------------------------------------------------------
    def put(self, window: Window) -> None:
        """Compares the keys of a window with the next entries."""
        keys = LogKeys.of(window)
        at, count = 0, len(keys.offset)
        while at < count:
            rows = self._rows(count - at)
            if rows is None:
                self._lack(keys, at, count)
                return
            same = keys.matches(at, rows)
            if same:
                self._take(rows.part(0, same), keys, at)
                at += same
            elif (changed := self._version_changes(window, keys, at)) is not None:
                keys, at, count = changed, 0, len(changed.offset)
            elif self._steps < _STEPS_MAX:
                at = self._differ(keys, at, count)
            else:
                self._give_up()
                return

    def _take(self, rows: IndexRows, keys: LogKeys, at: int) -> None:
        """Passes on entries that match the keys from `at` on."""
        assert self._check is not None  # rows came from it
        part = slice(at, at + len(rows.key_hash))
        self._check.put(rows, keys.key_hash[part], keys.offset[part], keys.store_ms[part])
        self._is_excused = False

    def _take_extra(self, rows: IndexRows) -> None:
        """Passes on entries that match none of the log's next keys."""
        assert self._check is not None  # rows came from it
        self._check.put(rows, rows.key_hash, rows.phy_offset, None)

    def _version_changes(self, window: Window, keys: LogKeys, at: int) -> LogKeys | None:
        """Returns the keys from `at` on as the other kind of version gives them, if the entries are
        from here on those of a version that indexes tags, or of one that does not. The store was
        then upgraded, or the other version was stated."""
        rows = self._rows(_LOOK_AHEAD_ROWS)
        if rows is None or self._changes == _CHANGES_MAX:
            return None
        offset, found = int(keys.offset[at]), int(rows.phy_offset[0])
        message = self._others.message_at(offset if self.tags_in_index else found)
        if message is None or not message.tags:
            return None
        tag_hash = message_key_hashes(message, self._with_tags(True))[-1]
        if self.tags_in_index:
            is_other = int(keys.key_hash[at]) == tag_hash and (found != offset or int(rows.key_hash[0]) != tag_hash)
            start, skipped, taken = offset + 1, 1, 0
        else:
            is_other = found < offset and int(rows.key_hash[0]) == tag_hash
            start, skipped, taken = offset, 0, 1
        if not is_other:
            return None
        changed = LogKeys.decoded(window, start, self._with_tags(not self.tags_in_index))
        rest = rows.part(taken, len(rows.key_hash))
        if changed.matches(0, rest) < keys.matches(at + skipped, rest):
            return None
        if taken:
            one, times = rows.part(0, 1), np.array([message.store_timestamp_ms], np.int64)
            assert self._check is not None  # rows came from it
            self._check.put(one, one.key_hash, one.phy_offset, times)
        self._changes += 1
        self.tags_in_index = not self.tags_in_index
        assert self._check is not None  # rows came from it
        text = f"from entry {rows.first} on the index has {'' if self.tags_in_index else 'no '}entries for tags"
        self._out.info("index-version", self._check.disk.path, f"{text}: another version wrote them")
        return changed

    def _with_tags(self, tags_in_index: bool) -> Dialect:
        return replace(self._config.dialect, tags_in_index=tags_in_index)

    def _differ(self, keys: LogKeys, at: int, count: int) -> int:
        """Handles a next entry that does not match the next key: takes the entry or skips the key.
        Returns the place of the next key to compare."""
        self._steps += 1
        rows = self._rows(_LOOK_AHEAD_ROWS)
        if rows is None:  # the last entries were put after the check began, as was seen just now
            self._lack(keys, at, count)
            return count
        key_hash, offset = int(keys.key_hash[at]), int(keys.offset[at])
        found_hash, found_offset = int(rows.key_hash[0]), int(rows.phy_offset[0])
        first, end = np.searchsorted(keys.offset, offset), np.searchsorted(keys.offset, offset, side="right")
        if found_offset == offset:
            is_repeated = found_hash in keys.key_hash[first:at]
        else:  # an entry whose offset is harmed hardly names a message with this very key
            is_repeated = (
                found_hash == key_hash and found_offset < offset and self._others.has(found_offset, found_hash)
            )
        if is_repeated:
            self._others.repeats += 1
            self._take_extra(rows.part(0, 1))
            return at
        if (found_hash == key_hash) != (found_offset == offset) and self._goes_on(rows, keys, at, count):
            self._harmed(rows, keys, at)
            return at + 1
        if found_offset < offset:
            behind = rows.phy_offset >= offset
            self._extra(rows.part(0, int(np.argmax(behind)) if behind.any() else len(behind)))
            return at
        if found_offset > offset:
            if len(rows.phy_offset) > 1 and rows.phy_offset[1] < found_offset:
                self._extra(rows.part(0, 1))  # it alone points ahead, so it is wrong
                return at
            until = at + int(np.searchsorted(keys.offset[at:], found_offset))
            self._lack(keys, at, until)
            return until
        if found_hash in keys.key_hash[at:end]:
            self._lack(keys, at, at + 1)
        else:
            self._harmed(rows, keys, at)
        return at + 1

    @staticmethod
    def _goes_on(rows: IndexRows, keys: LogKeys, at: int, count: int) -> bool:
        """Whether the entry after the first matches the key after `at`, or one of the two is not
        known."""
        if len(rows.key_hash) < 2 or at + 1 >= count:
            return True
        return bool(rows.key_hash[1] == keys.key_hash[at + 1] and rows.phy_offset[1] == keys.offset[at + 1])

    def _harmed(self, rows: IndexRows, keys: LogKeys, at: int) -> None:
        assert self._check is not None  # rows came from it
        index = rows.first
        offset, found = int(keys.offset[at]), int(rows.phy_offset[0])
        key_hash, found_hash = int(keys.key_hash[at]), int(rows.key_hash[0])
        if found != offset:
            text = f"entry {index} does not name its message"
            self._find_entry("index-entry-offset", rows, "phy_offset", text, offset, found)
        elif self._check.fits_better(rows, found_hash, key_hash):
            self._others.suspect_keys(offset, key_hash, found_hash)
            self._check.put(rows.part(0, 1), rows.key_hash[:1], keys.offset[at : at + 1], keys.store_ms[at : at + 1])
            return
        else:
            text = f"the hash of entry {index} is of no key of its message at {offset}"
            self._find_entry("index-entry-hash", rows, "key_hash", text, key_hash, found_hash, about=offset)
        self._take(rows.part(0, 1), keys, at)

    def _find_entry(
        self, check: str, rows: IndexRows, field: str, text: str, expected: int, found: int, about: int | None = None
    ) -> None:
        """Reports a field of the first of `rows`."""
        assert self._check is not None  # rows came from it
        disk = self._check.disk
        position, mend = disk.position(rows.first, field), self._out.rebuild
        self._out.find(check, disk.path, position, text, expected=expected, found=found, mend=mend, about=about)

    def _extra(self, rows: IndexRows) -> None:
        """Handles entries before the next key. They belong to deleted or damaged messages, repeat
        others, or belong to no message."""
        assert self._check is not None  # rows came from it
        disk = self._check.disk
        self._take_extra(rows)
        self._others.explain(disk, rows, np.ones(len(rows.phy_offset), np.bool_))

    def _lack(self, keys: LogKeys, start: int, end: int) -> None:
        """Notes that the keys [start, end) have no entry."""
        if self._is_excused or start == end:
            return
        check = self._check
        if check is None:
            self._lacks.add_behind(KeyRange.of(keys, start, end), self._directory, has_room=self._last_has_room)
            return
        self._lacks.add(KeyRange.of(keys, start, end), check)
        if check.next == 1:
            check.forget_begin()

    def _give_up(self) -> None:
        if self._place < len(self._paths) or self._check is not None:
            self._out.info(
                "index-not-checked", self._directory, f"more than {_STEPS_MAX} differences: the rest is not compared"
            )
        self.close()
        self._place, self._is_excused = len(self._paths), True

    # -- the end ----------------------------------------------------------------------------------
    def finish(self, end_offset: int) -> None:
        """Checks the remaining entries after the end of the log, and reports missing entries."""
        behind = 0
        found_in = ""
        while (rows := self._rows(_LAST_ROWS)) is not None:
            assert self._check is not None  # rows came from it
            disk = self._check.disk
            self._take_extra(rows)
            beyond = (rows.phy_offset >= end_offset) & ~self._damage.covers(rows.phy_offset)
            self._others.explain(disk, rows, ~beyond)
            behind += int(beyond.sum())
            if beyond.any() and not self._is_unclean and found_in != disk.path:
                found_in = disk.path
                self._others.find_beyond(disk, rows, int(np.argmax(beyond)), end_offset)
        if self._is_unclean:
            self._say(behind, "index-ahead", "behind the log's end: the last end was unclean")
        for kind, count, text in self._others.summary():
            self._say(count, kind, text)
        self._lacks.report(is_unclean=self._is_unclean)

    def _say(self, count: int, kind: str, text: str) -> None:
        if count > 0:
            self._out.info(kind, self._directory, f"{counted(count, 'entry', 'entries')} {text}")
