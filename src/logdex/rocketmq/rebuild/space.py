"""The disk space that a rebuild of a store takes."""

from __future__ import annotations

from logdex.io.env import Env
from logdex.jobs.free_space import require_free_for
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY, INDEX_ENTRY, INDEX_SLOT
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.settings.store_config import StoreConfig


def require_space(output: str, log: CommitLog, config: StoreConfig, env: Env, *, copies: int = 1) -> None:
    """Raises `EnvironmentProblem` unless there is space for `copies` times the files of a
    rebuild."""
    files = [(file.path, file.size_bytes) for file in log.files]
    require_free_for(output, files, lambda sizes: copies * output_size_bytes(sum(sizes), config), env)


def output_size_bytes(log_bytes: int, config: StoreConfig) -> int:
    """Returns a high estimate of the disk space that a rebuild takes, for messages of 200 bytes
    with three keys."""
    messages = log_bytes // 200 + 1
    index_files = -(-3 * messages // (config.max_index_num - 1))
    entries = messages * (CONSUME_QUEUE_ENTRY.size_bytes + 3 * INDEX_ENTRY.size_bytes)
    return entries + index_files * INDEX_SLOT.size_bytes * config.max_hash_slot_num
