"""Replicas of one partition in several log directories, and which of them is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Replica:
    """A partition in one log directory. `epoch` is its last leader epoch, -1 if it is not known.
    `end` is its log end offset. The ids are None where no file states them. `mark` is ``delete``,
    ``future`` or ``stray`` for a directory that is not in use, else None."""

    root: str
    topic: str
    partition: int
    epoch: int
    start: int
    end: int
    cluster_id: str | None = None
    topic_id: str | None = None
    mark: str | None = None

    def is_same_data(self, other: Replica) -> bool:
        """Whether both are replicas of one partition: no id shows another cluster or topic."""
        pairs = ((self.cluster_id, other.cluster_id), (self.topic_id, other.topic_id))
        return all(mine is None or theirs is None or mine == theirs for mine, theirs in pairs)

    def __str__(self) -> str:
        marked = f"marked {self.mark}, " if self.mark else ""
        return f"{self.root} ({marked}epoch {self.epoch}, offsets {self.start} to {self.end})"


def choose(replicas: Iterable[Replica]) -> tuple[list[Replica], list[str]]:
    """Returns the replicas to read, one per partition and set of data, and a note per partition
    whose replicas differ. Of the replicas of a partition the one with the highest epoch is read, of
    those the one with the highest end offset, as in an election of a leader. One that is marked is
    read only if none is in use: a deleted one may be of an earlier topic."""
    groups: dict[tuple[str, int], list[list[Replica]]] = {}
    for replica in replicas:
        sets = groups.setdefault((replica.topic, replica.partition), [])
        same = next((each for each in sets if all(replica.is_same_data(other) for other in each)), None)
        if same is None:
            sets.append([replica])
        else:
            same.append(replica)
    chosen, notes = [], []
    for sets in groups.values():
        for group in sets:
            best = max(group, key=lambda each: (each.mark is None, each.epoch, each.end, -each.start))
            chosen.append(best)
            notes += _differences(best, group)
    return chosen, notes


def _differences(best: Replica, group: Sequence[Replica]) -> list[str]:
    others = [each for each in group if (each.epoch, each.start, each.end) != (best.epoch, best.start, best.end)]
    if not others:
        return []
    told = ", ".join(map(str, others))
    return [f"{best.topic}-{best.partition}: the replicas differ: reads {best}, not {told}"]
