"""The second phase of a rebuild: derives the files that depend on all earlier segments of a
partition.

These are .txnindex per segment, .snapshot at the base offset of each segment but the first and at
the log end offset, and leader-epoch-checkpoint. They cover the log up to the first damage or the
first byte that cannot be read: a lost batch may have ended a transaction or begun an epoch.
"""

from __future__ import annotations

from dataclasses import dataclass

from logdex.errors import ProducerStateError
from logdex.io.env import Env
from logdex.io.output_files import OutputFiles
from logdex.jobs.tasks import Count
from logdex.kafka.files.file_names import LEADER_EPOCH_CHECKPOINT, SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX, offset_file_name
from logdex.kafka.rebuild.segment import SegmentDone
from logdex.kafka.rebuild.stage import read_stage
from logdex.kafka.segment.transaction_index import AbortedTxn, derive_transaction_index
from logdex.kafka.state.leader_epochs import LeaderEpochs
from logdex.kafka.state.producer_snapshot import derive_producer_snapshot
from logdex.kafka.state.producer_state import ProducerStates, aborted_of


@dataclass(frozen=True, slots=True)
class StateTask:
    """A partition and its segments `with_known_state`."""

    partition: str
    segments: tuple[SegmentDone, ...]


@dataclass(frozen=True, slots=True)
class StateDone:
    """The state files `names` of a partition in `directory`."""

    partition: str
    directory: str
    names: tuple[str, ...]
    snapshots: int
    aborted: int
    losses: tuple[str, ...]


def with_known_state(segments: list[SegmentDone]) -> tuple[SegmentDone, ...]:
    """The segments up to the first that is damaged, which a broker's recovery truncates, or that
    cannot be read in part. What was in the lost batches is not known."""
    for number, segment in enumerate(segments):
        if not segment.is_whole or segment.has_unreadable:
            return tuple(segments[: number + 1])
    return tuple(segments)


def derive_states(
    directory: str, sync: bool, env: Env, tasks: list[StateTask], attempt: str, count: Count
) -> list[StateDone]:
    """A task: derives the state files of some partitions, below this attempt's own directory."""
    own = f"{directory}/{attempt}"
    env.make_dirs(own)
    done = []
    with OutputFiles(env, sync=sync) as files:
        for task in tasks:
            fold = _Fold(task, env)
            folder = f"{own}/{task.partition}".rstrip("/")
            for name, data in fold.files.items():
                files.put(f"{folder}/{name}", data)
            snapshots = sum(name.endswith(SNAPSHOT_SUFFIX) for name in fold.files)
            losses = tuple(fold.losses)
            done.append(StateDone(task.partition, folder, tuple(fold.files), snapshots, fold.aborted, losses))
    return done


class _Fold:
    """Derives the state files of one partition: `files` by name.

    After a batch that no broker writes, only the leader epochs are continued.
    """

    def __init__(self, task: StateTask, env: Env) -> None:
        self.files: dict[str, bytes] = {}
        self.losses: list[str] = []
        self.aborted = 0
        self._states = ProducerStates()
        self._epochs = LeaderEpochs()
        self._env = env
        for number, segment in enumerate(task.segments):
            is_last = number + 1 == len(task.segments)
            self._add(segment, segment.next_offset if is_last else task.segments[number + 1].source.base_offset)
        self.files[LEADER_EPOCH_CHECKPOINT] = self._epochs.to_bytes()

    def _add(self, segment: SegmentDone, end_offset: int) -> None:
        aborted: list[AbortedTxn] = []
        for columns in read_stage(segment.staged, self._env):
            self._epochs.add(columns)
            if not self.losses:
                try:
                    aborted += aborted_of(self._states.add(columns))
                except ProducerStateError as error:
                    self.losses.append(
                        f"{segment.source.path}: there is no .snapshot and no .txnindex from here on: {error}"
                    )
        if self.losses:
            return
        if aborted:
            name = offset_file_name(segment.source.base_offset, TXN_INDEX_SUFFIX)
            self.files[name] = derive_transaction_index(aborted)
            self.aborted += len(aborted)
        if end_offset > 0:  # a partition that was never written to has no snapshot
            self.files[offset_file_name(end_offset, SNAPSHOT_SUFFIX)] = derive_producer_snapshot(self._states)
