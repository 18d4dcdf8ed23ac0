"""Where a reader that goes on behind damage continues in a file."""

from __future__ import annotations

from contextlib import closing

from logdex.errors import CorruptError, UnusableFileError
from logdex.io.env import Env
from logdex.io.mapped.mapping import take_unreadable
from logdex.io.mapped.partly_loaded import load
from logdex.rocketmq.commit_log.commit_log import CommitLogFile
from logdex.rocketmq.commit_log.log_end import LogEnd
from logdex.rocketmq.consume_queue.named_messages import NamedMessages
from logdex.rocketmq.scan.log_bytes import LogBytes, data_end_of
from logdex.rocketmq.scan.resume import find_behind
from logdex.rocketmq.settings.store_config import StoreConfig


def position_behind(file: CommitLogFile, end: LogEnd, store: str | None, config: StoreConfig, env: Env) -> int | None:
    """Returns the position in a file at which reading continues behind the damage at `end`, None if
    no message follows in this file, or it cannot be used at all. `store` has the ConsumeQueues, if
    there are any."""
    try:
        mapping = env.map_read(file.path, partly=True)
    except UnusableFileError:
        return None
    with mapping as mapped:
        load(mapped.array, end.position, file.size_bytes)
        data_end = data_end_of(file.path, end.position, env)
        data = LogBytes(mapped.array[: file.size_bytes], file.start_offset, data_end)
        if store is None:
            following = find_behind(data, end.position)
        else:
            with closing(NamedMessages(store, config, env)) as named:
                following = find_behind(data, end.position, named)
        take_unreadable(mapped.array)  # the caller is told of the damage
    return following


def error_of(end: LogEnd) -> CorruptError:
    """Returns the error at which a log ends, also where no single message is wrong."""
    return end.error or CorruptError(end.reason, path=end.path, position=end.position)
