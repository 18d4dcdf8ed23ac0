"""Divides the check of a store into tasks: what they prove sound, the pass over the log steps
over."""

from __future__ import annotations

from collections.abc import Iterator

from logdex.errors import MissingFileError, StoreError, UnreadableError
from logdex.io.env import Env
from logdex.jobs.tasks import Runner, group_parts
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.geometry.resolve import index_file_paths
from logdex.rocketmq.scan.scan_part import ScanPart
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify.at_start import END_PHY_OFFSET, index_header
from logdex.rocketmq.verify.proven.part_proof import PartTasks
from logdex.rocketmq.verify.proven.runs import ProvenRun

_PARTS_PER_CORE = 4
_PART_BYTES_MAX = 1 << 30
"""The size of a broker's file. No task takes longer than a second or two."""


def prove(runner: Runner, root: str, config: StoreConfig, cut_bytes: int, env: Env) -> list[ProvenRun]:
    """Returns what tasks on `runner` have proven of the store at `root`, or of one CommitLog file.
    Raises `MissingFileError` if a task does not see a file that is there."""
    try:
        log = CommitLog.of_config(root, config, env=env)
        files = [] if log.is_one_file else _index_files(root, env)
    except (StoreError, UnreadableError):
        return []  # the check itself meets it
    with log:
        tasks = PartTasks(root, config, log.is_one_file, files, cut_bytes, env)
        cuts = max(log.size_bytes // cut_bytes // (_PARTS_PER_CORE * runner.cores), 1)
        part_bytes = min(cuts, max(_PART_BYTES_MAX // cut_bytes, 1)) * cut_bytes
        proofs = runner.run("verify", tasks.prove, group_parts(_parts(log, part_bytes), part_bytes))
    runs: list[ProvenRun] = []
    for proof in (each for of_task in proofs for each in of_task):
        if proof.missing is not None and env.exists(proof.missing):
            hint = "all workers of Spark must see it under the same path"
            raise MissingFileError("a worker does not see it", path=proof.missing, hint=hint)
        runs += proof.runs
    return runs


def _parts(log: CommitLog, part_bytes: int) -> Iterator[ScanPart]:
    for file in log.files:
        if file.start_offset not in log.unusable:
            for begin in range(0, file.size_bytes, part_bytes):
                yield ScanPart(file, begin, min(begin + part_bytes, file.size_bytes), found=begin == 0)


def _index_files(root: str, env: Env) -> list[tuple[str, int]]:
    """Returns the IndexFiles that can be read, each with the physical offset of its last entry."""
    headers = [(path, index_header(path, env)) for path in index_file_paths(root, env)]
    return [(path, header[END_PHY_OFFSET]) for path, header in headers if header]
