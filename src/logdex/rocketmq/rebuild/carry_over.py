"""Takes over what a rebuild cannot derive: the queues of which the log has no message any more.

A broker keeps the last ConsumeQueue file of a queue whose messages have expired, because it tells
where the queue goes on: without it the next message would have queue offset 0, and consumers would
wait for offsets that never come.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from logdex.errors import MissingFileError, StorageError, StoreError, VanishedError
from logdex.io.env import Env
from logdex.jobs.look_again import LOOKS_MAX
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue, discover_queues
from logdex.rocketmq.files.store_files import CONSUME_QUEUE_DIR
from logdex.rocketmq.rebuild.report import RebuildReport
from logdex.rocketmq.settings.store_config import StoreConfig

_BLOCK = 1 << 20


def carry_over_queues(
    root: str, directory: str, min_offset: int, config: StoreConfig, report: RebuildReport, *, sync: bool, env: Env
) -> None:
    """Copies to ``directory/consumequeue`` each queue of the store at `root` that was not rebuilt
    and whose entries all point before the log's start at `min_offset`.

    Other queues that were not rebuilt point to messages that the log does not have, or cannot be
    read. They are left out and counted. One that a broker removes meanwhile, with its topic, is not
    there for a rebuild either.
    """
    size = config.consume_queue_file_size_bytes
    for topic, queue_id, source in discover_queues(root, env=env):
        target = f"{directory}/{CONSUME_QUEUE_DIR}/{source[len(root) + len(CONSUME_QUEUE_DIR) + 2 :]}"
        if env.is_dir(target):
            continue
        opened = partial(ConsumeQueue, source, topic, queue_id, file_size_bytes=size, env=env)
        try:
            is_expired = _unless_removed(partial(_is_expired, opened, min_offset), source, env)
        except StorageError as error:
            report.losses.append(f"{error.message}: this ConsumeQueue, of which the log has no message, is left out")
            continue
        except StoreError:
            is_expired = False
        if is_expired:
            is_copied = _unless_removed(partial(_copy, opened, target, sync=sync, env=env), source, env)
            if is_copied is None:
                env.remove_tree(target)
                continue
            report.expired_queues += 1
            report.files += len(env.list_dir(target))
        elif is_expired is not None:
            report.stale_queues += 1


def _unless_removed(act: Callable[[], bool], directory: str, env: Env) -> bool | None:
    """Returns the result of `act`, which reads the queue in `directory`; None if a broker has
    removed the queue meanwhile. Where it has removed a file, `act` is called again."""
    for _ in range(LOOKS_MAX):
        try:
            return act()
        except MissingFileError as error:
            if not env.is_dir(directory):
                return None
            if not isinstance(error, VanishedError):
                raise
    return act()


def _is_expired(opened: Callable[[], ConsumeQueue], min_offset: int) -> bool:
    queue = opened()
    try:
        if queue.max_offset == queue.start_offset:
            return True
        last = queue.entry(queue.max_offset - 1)
        return last.is_pre_blank or last.physical_offset < min_offset
    finally:
        queue.close()


def _copy(opened: Callable[[], ConsumeQueue], target: str, *, sync: bool, env: Env) -> bool:
    queue = opened()
    queue.close()
    env.remove_tree(target)  # what was copied before a broker removed a file
    env.make_dirs(target)
    for file in queue.files:
        path = f"{target}/{file.path.rpartition('/')[2]}"
        with env.open_read(file.path) as source, env.open_write(path, exclusive=True) as copy:
            copy.truncate(source.size_bytes)
            for at in range(0, source.size_bytes, _BLOCK):
                data = source.read_at(at, _BLOCK)
                if data.strip(b"\0"):
                    copy.write_at(at, data)
            if sync:
                copy.sync()
    return True
