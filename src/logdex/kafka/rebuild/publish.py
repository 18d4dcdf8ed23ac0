"""Decides which files of a rebuild's tasks are published, and which files of the output they
replace."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from logdex.io.env import Env
from logdex.jobs.publication import Names
from logdex.jobs.staging import remove_tree_in_use
from logdex.kafka.files.file_names import (
    INDEX_SUFFIX,
    KEY_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    parse_offset_file,
)
from logdex.kafka.rebuild.segment import RebuildSettings, SegmentDone
from logdex.kafka.rebuild.state import StateDone, with_known_state

SEGMENTS_DIR = "segments"
STATES_DIR = "states"
"""The directories below the staging directory that the attempts of the two phases write to."""


@dataclass(slots=True)
class Publication:
    """Names to publish and stale names to set aside, relative to the output."""

    names: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def all_names(self) -> Names:
        """The names and the stale names."""
        return Names(tuple(self.names), tuple(self.stale))


def assemble(
    directory: str,
    output: str,
    segments: dict[str, list[SegmentDone]],
    states: list[StateDone],
    settings: RebuildSettings,
    lost: Mapping[str, Collection[int]],
    *,
    in_place: bool,
    env: Env,
) -> Publication:
    """Moves the files of successful attempts to their places in the staging directory `directory`.

    In place, if a segment is damaged or cannot be read in part, the partition's producer snapshots,
    transaction indexes and leader epochs stay as they were: what is behind would have none. The
    files of `lost` segments, by partition, stay too: they alone tell of the loss.
    """
    plan = Publication()
    state_of = {state.partition: state for state in states}
    for partition, done in segments.items():
        state = state_of.get(partition)
        is_known = len(with_known_state(done)) == len(done) and not any(each.has_unreadable for each in done)
        if in_place and state is not None and not is_known:
            state = None
            where = done[0].source.path.rpartition("/")[0]
            plan.notes.append(f"{where}: .snapshot, .txnindex and leader-epoch-checkpoint stay as they were")
        names = _gather(f"{directory}/{partition}".rstrip("/"), done, state, env)
        if partition and not in_place:
            plan.names.append(partition)
            continue
        prefix = f"{partition}/" if partition else ""
        plan.names += [prefix + name for name in sorted(names)]
        if partition in state_of:
            suffixes = _derived_suffixes(settings, with_state=state is not None)
            found = env.list_dir(f"{output}/{partition}".rstrip("/"))
            stale = [name for name in found if name not in names and _suffix(name) in suffixes]
            plan.stale += [prefix + name for name in stale if not _is_of(name, lost.get(partition, ()))]
    for name in (SEGMENTS_DIR, STATES_DIR):
        remove_tree_in_use(f"{directory}/{name}", env)
    return plan


def _gather(folder: str, segments: list[SegmentDone], state: StateDone | None, env: Env) -> set[str]:
    """Moves a partition's files into `folder` and returns their names."""
    env.make_dirs(folder)
    found = [(done.directory, name) for done in segments for name in done.names]
    found += [(state.directory, name) for name in state.names] if state else []
    for directory, name in found:
        env.rename(f"{directory}/{name}", f"{folder}/{name}")
    return {name for _, name in found}


def _derived_suffixes(settings: RebuildSettings, *, with_state: bool) -> set[str]:
    suffixes = {INDEX_SUFFIX, TIME_INDEX_SUFFIX}
    if with_state:
        suffixes |= {SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX}
    if settings.key_index:
        suffixes.add(KEY_INDEX_SUFFIX)
    return suffixes


def _is_of(name: str, bases: Collection[int]) -> bool:
    """Whether a file belongs to a segment with one of the base offsets."""
    named = parse_offset_file(name)
    return named is not None and named[0] in bases


def _suffix(name: str) -> str:
    named = parse_offset_file(name)
    return "" if named is None else named[1]
