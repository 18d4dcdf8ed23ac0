"""What a dispatch has derived from a partition: a journal per partition, below ``.logdex-dispatch``
in the output.

It is written after what it vouches for is on disk, and replaced as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from logdex.errors import CorruptError, VanishedError
from logdex.io.atomic_file import write_atomically
from logdex.io.env import Env
from logdex.io.name_changes import FileStamp
from logdex.kafka.rebuild.segment import SegmentDone
from logdex.kafka.rebuild.source import SourceSegment
from logdex.kafka.rebuild.stage import StagedRows
from logdex.kafka.scan.scanner import EndKind

JOURNAL_NAME = "journal.json"
_VERSION = 1
_SIZE_BYTES_MAX = 256 << 20
_HINT = "remove the output, and run it again"


@dataclass(frozen=True, slots=True)
class DerivedSegment:
    """A segment that was derived: what identified its .log before it was read, and what came of
    it."""

    stamp: FileStamp
    done: SegmentDone


@dataclass(frozen=True, slots=True)
class PartitionJournal:
    """The files of a partition's output. `segments` are in the order of the log, `states` are the
    names of the files that depend on several segments, and `losses` what is missing in these.
    `is_behind` states that a killed run has left files that the journal does not have; it is not
    written."""

    interval_bytes: int = 0
    segments: Mapping[int, DerivedSegment] = field(default_factory=dict)
    states: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    is_behind: bool = False

    @property
    def names(self) -> set[str]:
        """The names of all files of the partition in the output."""
        return {name for each in self.segments.values() for name in each.done.names}.union(self.states)

    @property
    def stages(self) -> set[str]:
        """The names of the stage files beside the journal."""
        return {stage_name(base) for base, each in self.segments.items() if each.done.staged is not None}

    def without_missing(self, there: Collection[str]) -> PartitionJournal:
        """Returns the journal without the segments of which a file is not among the names that are
        there. Without a state file there are none: then the partition is derived again."""
        if not {*self.states} <= {*there}:
            return PartitionJournal()

        def is_whole(each: DerivedSegment) -> bool:
            base = each.done.source.base_offset
            return {*each.done.names, *([stage_name(base)] if each.done.staged is not None else [])} <= {*there}

        return replace(self, segments={base: each for base, each in self.segments.items() if is_whole(each)})

    def write(self, home: str, env: Env) -> None:
        """Replaces the journal in `home`, durably."""
        segments = [_to_json(each) for each in self.segments.values()]
        text = json.dumps(
            {
                "version": _VERSION,
                "interval_bytes": self.interval_bytes,
                "segments": segments,
                "states": self.states,
                "losses": self.losses,
            }
        )
        write_atomically(f"{home}/{JOURNAL_NAME}", text.encode(), env=env)

    @staticmethod
    def read(home: str, env: Env) -> PartitionJournal | None:
        """Returns the journal in `home`, None if there is none or another version wrote it: then
        all is derived again. Raises `CorruptError` if it is malformed."""
        path = f"{home}/{JOURNAL_NAME}"
        try:
            given = json.loads(env.read_file(path, _SIZE_BYTES_MAX))
            if given["version"] != _VERSION:
                return None
            segments = [_from_json(each, home) for each in given["segments"]]
            return PartitionJournal(
                int(given["interval_bytes"]),
                {each.done.source.base_offset: each for each in segments},
                tuple(map(str, given["states"])),
                tuple(map(str, given["losses"])),
            )
        except VanishedError:
            return None
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise CorruptError(f"no journal of a dispatch: {error}", path=path, position=0, hint=_HINT) from error


def stage_name(base_offset: int) -> str:
    """Returns the name of the stage file of a segment."""
    return f"{base_offset:020d}.stage"


def _to_json(each: DerivedSegment) -> dict[str, Any]:
    done = asdict(replace(each.done, staged=None, directory=""))
    rows = None if each.done.staged is None else each.done.staged.rows
    return {"stamp": each.stamp, "done": {**done, "staged": rows, "end": each.done.end.value}}


def _from_json(given: Any, home: str) -> DerivedSegment:
    done = dict(given["done"])
    source = SourceSegment(**done.pop("source"))
    rows, end = done.pop("staged"), EndKind(done.pop("end"))
    staged = None if rows is None else StagedRows(f"{home}/{stage_name(source.base_offset)}", int(rows))
    names, losses = tuple(done.pop("names")), tuple(done.pop("losses"))
    stamp = FileStamp(*given["stamp"])
    return DerivedSegment(stamp, SegmentDone(source, staged=staged, end=end, names=names, losses=losses, **done))
