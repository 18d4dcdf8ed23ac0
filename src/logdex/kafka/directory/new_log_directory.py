"""A log directory that is new: a recovery point checkpoint without lines, by which it is known as a
log directory, and the mark of a clean shutdown, because there is no partition to recover."""

from __future__ import annotations

from logdex.io.env import Env
from logdex.kafka.files.checkpoints import write_offset_checkpoint
from logdex.kafka.files.file_names import CLEAN_SHUTDOWN, META_PROPERTIES, RECOVERY_POINT_CHECKPOINT
from logdex.kafka.files.metadata_files import CleanShutdown


def make_log_directory(directory: str, *, env: Env) -> None:
    """Makes an existing directory a log directory. The mark comes last."""
    path = f"{directory}/{RECOVERY_POINT_CHECKPOINT}"
    if not env.exists(path):
        write_offset_checkpoint(path, {}, env=env)
    CleanShutdown().write(f"{directory}/{CLEAN_SHUTDOWN}", env=env)


def may_become_log_directory(directory: str, *, env: Env) -> bool:
    """Whether no broker has used an existing directory yet, and no partition is in it."""
    names = env.list_dir(directory)
    return META_PROPERTIES not in names and not any(env.is_dir(f"{directory}/{name}") for name in names)
