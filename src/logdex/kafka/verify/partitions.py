"""The partitions of a log directory, checked in tasks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from logdex.errors import MissingFileError, StorageError
from logdex.io.env import Env
from logdex.jobs.findings import FINDINGS_MAX, Collected
from logdex.jobs.reports import Progress
from logdex.jobs.tasks import Count, Runner, group_parts, progress_of
from logdex.kafka.directory.clean_mark import is_closed_cleanly
from logdex.kafka.internal_topics.batch_reading import segment_paths
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.verify.checkpoint_check import LogEnd
from logdex.kafka.verify.checks import Collector
from logdex.kafka.verify.looking_again import DELETED, run_until_settled
from logdex.kafka.verify.partition_check import PartitionCheck, Totals

_TASKS_PER_CORE = 4


def logs_of(directory: str, env: Env) -> list[str]:
    """Returns the .log files of a partition; none if it is deleted meanwhile or cannot be read."""
    try:
        return segment_paths(directory, env=env)
    except StorageError:
        return []


def logs_size_bytes(directory: str, env: Env) -> int:
    """Returns the size of a partition's logs; of one that is changing, or cannot be read, what is
    seen of it."""
    size = 0
    for log in logs_of(directory, env):
        try:
            size += env.size_bytes(log)
        except StorageError:
            continue
    return size


class CheckedPartition(NamedTuple):
    """A partition to check. `log_start_offset` is the checkpointed one, or 0 without one. With
    `only`, just the segment at that base offset is checked."""

    directory: str
    config: LogConfig
    log_start_offset: int
    only: int | None = None
    size_bytes: int = 0
    """The size of its logs, which is looked at only where partitions are grouped."""


class CheckedTask(NamedTuple):
    """What a task has found and read, and how the logs end, by directory."""

    collected: Collected
    totals: Totals
    ends: dict[str, LogEnd]

    def add_to(self, out: Collector, totals: Totals) -> None:
        """Adds what was found and read to that of all tasks."""
        out.merge(self.collected)
        totals.records += self.totals.records
        totals.bytes += self.totals.bytes
        totals.older_entry = totals.older_entry or self.totals.older_entry


@dataclass(frozen=True, slots=True)
class PartitionChecks:
    """What all tasks of a run have in common. It makes their collectors and runs them.

    What is collected of a partition, and handed on by a task, is limited to `max_findings` or
    `FINDINGS_MAX`, whichever is more. So memory is bounded however many partitions there are, and
    two looks at a partition can be compared however few findings are asked for.
    """

    root: str
    max_findings: int
    checks: Collection[str] | None
    flags: str
    env: Env

    def collector(self) -> Collector:
        """Returns a new collector. Raises `UsageError` for an unknown check."""
        return Collector(self.root, max(self.max_findings, FINDINGS_MAX), self.checks, self.flags)

    def run_on(
        self, runner: Runner, partitions: Sequence[CheckedPartition], out: Collector, totals: Totals
    ) -> dict[str, LogEnd]:
        """Checks partitions on a runner. A partition whose directory cannot be read is a finding.
        Returns how the logs of the others end, by directory."""
        tasks = [[*partitions]] if partitions else []
        if runner.cores > 1:
            tasks = self._grouped(partitions, _TASKS_PER_CORE * runner.cores)
        ends: dict[str, LogEnd] = {}
        for done in runner.run("verify", self._check_several, tasks):
            self._require_seen(done)
            done.add_to(out, totals)
            ends |= done.ends
        return ends

    def _grouped(self, partitions: Sequence[CheckedPartition], count: int) -> list[list[CheckedPartition]]:
        """Returns the partitions in about `count` groups of about the same size."""
        sized = [each._replace(size_bytes=logs_size_bytes(each.directory, self.env)) for each in partitions]
        return group_parts(sized, sum(each.size_bytes for each in sized) // count + 1)

    def _require_seen(self, done: CheckedTask) -> None:
        """Raises `MissingFileError` if a task found a partition deleted that is there: it ran on a
        machine that does not have it."""
        for info in done.collected.infos:
            if info.kind == DELETED and self.env.is_dir(info.path):
                hint = "all workers of Spark must see it under the same path"
                raise MissingFileError("a worker does not see it", path=info.path, hint=hint)

    def run_one_on(self, runner: Runner, partition: CheckedPartition, out: Collector, totals: Totals) -> LogEnd | None:
        """Checks one partition on a runner. Returns how its log ends; None if it was deleted or no
        look came to its end. Raises `StorageError` if its directory cannot be read."""
        [done] = runner.run("verify", self._check_one, [partition])
        done.add_to(out, totals)
        return done.ends.get(partition.directory)

    def _check_several(self, task: Sequence[CheckedPartition], attempt: str, count: Count) -> CheckedTask:
        out, totals, progress = self.collector(), Totals(), progress_of(count)
        ends: dict[str, LogEnd] = {}
        for partition in task:
            found = self.collector()
            try:
                ends |= self._check(partition, found, totals, progress)
            except StorageError as error:
                mend = "check the disk and the mode of the directory and its files"
                told = f"the partition is not checked: {error.message}"
                found.find("unreadable", partition.directory, 0, told, mend=mend)
            out.merge(found.collected())
        return CheckedTask(out.collected(), totals, ends)

    def _check_one(self, task: CheckedPartition, attempt: str, count: Count) -> CheckedTask:
        out, totals = self.collector(), Totals()
        ends = self._check(task, out, totals, progress_of(count))
        return CheckedTask(out.collected(), totals, ends)

    def _check(
        self, partition: CheckedPartition, out: Collector, totals: Totals, progress: Progress
    ) -> dict[str, LogEnd]:
        """Checks one partition, again if a broker changes it meanwhile."""
        directory, env = partition.directory, self.env

        def make() -> PartitionCheck:
            return PartitionCheck(
                *(directory, partition.config, out, env, totals),
                log_start_offset=partition.log_start_offset,
                is_clean=is_closed_cleanly(directory, env=env),
                only=partition.only,
                progress=progress,
            )

        check = run_until_settled(make, directory, out, totals, env)
        progress(totals.records, totals.bytes)
        return {} if check is None else {directory: LogEnd(directory, check.next_offset, check.end_is_certain)}
