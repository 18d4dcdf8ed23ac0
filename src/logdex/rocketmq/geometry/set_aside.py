"""The sizes of folders that a rebuild in place had set aside when it was killed. Its journal states
them."""

from __future__ import annotations

from logdex.errors import StoreError
from logdex.io.env import Env
from logdex.jobs.journal import read_journal
from logdex.rocketmq.files.store_files import CONSUME_QUEUE_DIR, INDEX_DIR
from logdex.rocketmq.settings.store_config import StoreConfig


def settings_by_folder(config: StoreConfig) -> dict[str, dict[str, int]]:
    """Returns the sizes that the files of each folder show, by the broker's names, for the journal
    of a rebuild."""
    return {
        CONSUME_QUEUE_DIR: {"mappedFileSizeConsumeQueue": config.mapped_file_size_consume_queue},
        INDEX_DIR: {"maxHashSlotNum": config.max_hash_slot_num, "maxIndexNum": config.max_index_num},
    }


def sizes_set_aside(root: str, env: Env) -> dict[str, int]:
    """Returns the sizes of the folders that are missing because a rebuild was killed between
    setting one aside and putting its successor in place, by the broker's names."""
    try:
        journal = read_journal(root, env)
    except StoreError:
        return {}
    if journal is None:
        return {}
    missing = [step.name for step in journal.steps if step.kept and not env.exists(f"{root}/{step.name}")]
    found = [(name, size) for folder in missing for name, size in journal.settings.get(folder, {}).items()]
    return {name: size for name, size in found if isinstance(size, int)}
