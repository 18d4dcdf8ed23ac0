"""Checks a partition again if a broker has removed or replaced files of it meanwhile.

Retention, compaction and the deletion of a topic take files away, and compaction puts others under
the same names. What was seen in between is of no single state of the log. If files go away during
every look, as they do in a large log, a finding counts if every look has it.

A broker also appends, and the end of what it appends can be seen before the rest. So if the log has
grown, a finding counts if a second look has it. A log that seems to end inside a batch gets some
time to grow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from logdex.errors import VanishedError
from logdex.io.env import Env
from logdex.io.record_lock import Identity
from logdex.jobs import look_again
from logdex.jobs.findings import Finding, Mark
from logdex.kafka.files.file_names import LOG_SUFFIX, parse_offset_file
from logdex.kafka.verify.checks import Collector
from logdex.kafka.verify.partition_check import PartitionCheck, Totals

DELETED = "partition-deleted"
"""The kind of information about a partition that was deleted before it was checked."""

_WAITS = 3
"""How often a log that ends inside a batch is asked whether it has grown, each time after twice as
long."""


def run_until_settled(
    make: Callable[[], PartitionCheck], directory: str, out: Collector, totals: Totals, env: Env
) -> PartitionCheck | None:
    """Runs the check that `make` returns until it has no findings, or no file of the partition is
    removed or replaced meanwhile and no log has grown, or no finding is common to all looks. If
    logs only grow, there are two looks. Returns the last check. Returns None, and reports
    information, if the partition is deleted meanwhile or no look came to its end."""
    is_first = True
    common: dict[tuple[str, str, int], Finding] = {}
    for look in range(look_again.LOOKS_MAX):
        if look:
            look_again.pause(2.5)
        mark, before = out.mark(), replace(totals)
        try:
            files = _files_of(directory, env)
            logs = [path for path, identity in files.items() if identity and path.endswith(LOG_SUFFIX)]
            sizes = {path: env.size_bytes(path) for path in logs}
            check = make()
            check.run()
            if not env.is_dir(directory):
                raise VanishedError("the partition was removed meanwhile", path=directory)
            found = {(each.check, each.path, each.position): each for each in out.since(mark)}
            are_all_listed = out.mark().truncated == mark.truncated
            if are_all_listed and not found:
                return check
            are_there = _are_there(files, env)
            if are_there and not (are_all_listed and _has_grown(sizes, env, wait=not check.end_is_certain)):
                return check
            if are_all_listed:
                common = {place: found[place] for place in found if is_first or place in common}
                is_last = look + 1 == look_again.LOOKS_MAX or (are_there and not is_first)
                is_first = False
                if not common or is_last:
                    out.keep(mark, common.values())
                    return check
        except VanishedError:
            if not env.is_dir(directory):
                _forget(out, totals, mark, before)
                out.info(DELETED, directory, "the broker has deleted it meanwhile: not checked")
                return None
        _forget(out, totals, mark, before)
    out.info("partition-changing", directory, "the broker keeps removing or replacing its files: not checked")
    return None


def _forget(out: Collector, totals: Totals, mark: Mark, before: Totals) -> None:
    out.back_to(mark)
    totals.records, totals.bytes, totals.older_entry = before.records, before.bytes, before.older_entry


def _files_of(directory: str, env: Env) -> dict[str, Identity | None]:
    """Identifies the files of a partition that are named by an offset."""
    paths = [f"{directory}/{name}" for name in env.list_dir(directory) if parse_offset_file(name) is not None]
    return {path: env.identity(path) for path in paths}


def _are_there(files: dict[str, Identity | None], env: Env) -> bool:
    """Whether all files are still those that they were."""
    return all(env.identity(path) == identity for path, identity in files.items())


def _has_grown(sizes: dict[str, int], env: Env, *, wait: bool) -> bool:
    """Whether a log is no longer as long as it was."""
    for look in range(1 + _WAITS if wait else 1):
        if look:
            look_again.pause(1 << (look - 1))
        if any(env.size_bytes(path) != size for path, size in sizes.items()):
            return True
    return False
