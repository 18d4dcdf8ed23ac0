"""The source of a rebuild of a store, the outputs that it allows, and the disk space that it
takes."""

from __future__ import annotations

import posixpath
from contextlib import nullcontext
from functools import partial

from logdex.errors import UsageError
from logdex.io.env import Env
from logdex.jobs import output as outputs
from logdex.rocketmq.files.broker_lock import broker_lock
from logdex.rocketmq.files.store_files import COMMIT_LOG_DIR, CONSUME_QUEUE_DIR, INDEX_DIR
from logdex.rocketmq.settings.store_config import StoreConfig

PUBLISHED = (CONSUME_QUEUE_DIR, INDEX_DIR)
"""The names that a rebuild publishes in its output."""


def check_output(root: str, output: str, *, in_place: bool, env: Env) -> None:
    """Raises `UsageError` if a rebuild of `root`, a store or one CommitLog file, may not write to
    `output`."""
    is_file = env.is_file(root)
    if in_place and is_file:
        raise UsageError(
            f"--in-place needs a store, and {root} is one file", hint="give --output DIR, or the root as PATH"
        )
    store = _store_of(env.real_path(root), env)
    outputs.check_output(output, store, published=PUBLISHED, in_place=in_place, may_be_in_place=not is_file, env=env)


def settle_unfinished(root: str, output: str, *, in_place: bool, sync: bool, env: Env) -> list[str]:
    """Undoes what a killed run published in `output`, before anything there is looked at. Returns
    what was undone, in words."""
    locked = partial(broker_lock, root, env=env) if in_place else nullcontext
    return outputs.settle_unfinished([output], locked=locked, sync=sync, env=env)


def _store_of(root: str, env: Env) -> str:
    """Returns the store that `root` is or, for one CommitLog file, the store around it. Files of
    that store must not be replaced by those of a single file."""
    folder = posixpath.dirname(root)
    lies_in_store = env.is_file(root) and posixpath.basename(folder) == COMMIT_LOG_DIR
    return posixpath.dirname(folder) if lies_in_store else root


def output_size_bytes(log_bytes: int, config: StoreConfig) -> int:
    """Returns a high estimate of the disk space that a rebuild takes, for messages of 200 bytes
    with three keys."""
    messages = log_bytes // 200 + 1
    return messages * (20 + 3 * 20) + 4 * config.max_hash_slot_num
