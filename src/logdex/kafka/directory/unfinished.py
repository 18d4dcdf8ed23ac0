"""Publications in a log directory or partition: how they are staged, and where the journals of
those lie that a kill broke off."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

from logdex.errors import StorageError
from logdex.io.env import Env
from logdex.io.path_look import StrPath
from logdex.io.remote.schemes import scheme_of
from logdex.jobs import output as outputs
from logdex.jobs.journal import LOCK_NAME, Unfinished, find_unfinished, warn_of_unfinished
from logdex.jobs.staging import Staging
from logdex.kafka.directory.log_lock import in_place_lock
from logdex.kafka.directory.partition_files import home_of, partition_directory
from logdex.kafka.directory.recognise import KafkaPath, KafkaPathKind, require_kafka
from logdex.kafka.files.file_names import LOG_SUFFIX


def journal_homes(found: KafkaPath, env: Env, *, but_unreadable: bool = False) -> list[str]:
    """Returns the directories in which a journal of what is published in place at a path may lie:
    the log directory, and each partition's, which has its own where it is outside any log
    directory. With `but_unreadable` directories that cannot be read are left out."""

    def exists(path: str) -> bool:
        try:
            return env.exists(path)
        except StorageError:
            if but_unreadable:
                return False
            raise

    if found.kind is not KafkaPathKind.LOG_DIR:
        directory = env.real_path(partition_directory(found))
        return [posixpath.dirname(directory), directory]
    root = env.real_path(found.path)
    if scheme_of(root) is not None:
        return [root]  # nothing is published there, and a look at each partition is a request
    return [root, *(f"{root}/{name}" for name in env.list_dir(root) if exists(f"{root}/{name}/{LOCK_NAME}"))]


def unfinished_at(found: KafkaPath, env: Env) -> list[Unfinished]:
    """Returns the publications at a path that were broken off or are under way; at a partition,
    those that change its files. What cannot be read counts as none."""
    homes = journal_homes(found, env, but_unreadable=True)
    unfinished = find_unfinished(homes, env)
    return unfinished if found.kind is KafkaPathKind.LOG_DIR else _in_partition(unfinished, homes[1])


def opened_path(path: StrPath | KafkaPath, env: Env) -> KafkaPath:
    """Returns the recognised Kafka path, as `require_kafka` does. Warns, for the function that
    calls this, of publications that were broken off or are under way there, unless the path was
    recognised before: then the caller has looked for them."""
    found = require_kafka(path, env=env)
    if found is not path:
        warn_of_unfinished(unfinished_at(found, env), depth=2)
    return found


def _in_partition(unfinished: Iterable[Unfinished], partition: str) -> list[Unfinished]:
    """Returns the publications that change files of a partition, given by its real path."""
    return [each for each in unfinished if each.changes(partition)]


def warn_of_partition(path: str, env: Env) -> None:
    """Warns, for the function that calls this, of publications in the directory of a partition,
    which need not exist yet."""
    partition = env.real_path(path)
    found = find_unfinished((posixpath.dirname(partition), partition), env)
    warn_of_unfinished(_in_partition(found, partition), depth=2)


def require_published(partition: str, env: Env) -> None:
    """Raises `UsageError` if files of a partition, given by its real path, are half-published: some
    are new and some are as before, such as a .log and its .index."""
    unfinished = find_unfinished((posixpath.dirname(partition), partition), env, is_writer=True)
    for each in _in_partition(unfinished, partition):
        raise each.error


def require_whole_logs(partitions: Iterable[str], env: Env) -> None:
    """Raises `UsageError` if a command that was killed had published or set aside the .log files of
    a partition, given by its directory: the next run undoes that, and what had been derived from
    the log would be of another one. Raises `StorageError` if that cannot be found out."""
    folders = dict.fromkeys(map(env.real_path, partitions))
    homes: dict[str, None] = {}
    for folder in folders:
        homes[posixpath.dirname(folder)] = None
        if scheme_of(folder) is None:  # nothing is published there, and a look is a request
            homes[folder] = None
    for each in find_unfinished(homes, env, is_writer=True):
        logs = tuple(path for path in each.paths if path.endswith(LOG_SUFFIX) or path in folders)
        if any(map(replace(each, paths=logs).changes, folders)):
            raise each.error


def settle_unfinished(found: KafkaPath, output: str, *, in_place: bool, sync: bool, env: Env) -> list[str]:
    """Undoes what a killed run published in `output`, before anything there is looked at. Returns
    what was undone, in words."""
    if not in_place:
        return outputs.settle_unfinished([env.real_path(output)], sync=sync, env=env)
    homes = journal_homes(found, env)
    directory = homes[0] if found.kind is KafkaPathKind.LOG_DIR else home_of(homes[1], env=env)[0]
    return outputs.settle_unfinished(
        homes, in_place=True, locked=partial(in_place_lock, directory, env=env), sync=sync, env=env
    )


def staged_logs(
    found: KafkaPath,
    output: str,
    command: str,
    *,
    home: str,
    partition: str | None,
    in_place: bool,
    flags: str,
    sync: bool,
    env: Env,
) -> AbstractContextManager[Staging]:
    """Returns the staging for what `command`, with `flags`, publishes in `output`. `home` is the
    log directory that is locked in place, `partition` the partition's directory in which the
    staging folder is made in place, because the broker tolerates one there."""
    return outputs.staged_output(
        output,
        in_place=in_place,
        lock=in_place_lock(home, env=env),
        command=outputs.command_line(command, env.real_path(found.path), output, in_place=in_place, flags=flags),
        staging_home=partition,
        lock_home=home,
        sync=sync,
        env=env,
    )
