"""Checks the names in a partition's directory, and the small files of a partition and of a log
directory."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from logdex.errors import CorruptError, UnreadableError
from logdex.io.env import Env
from logdex.jobs.journal import LOCK_NAME
from logdex.jobs.publication import is_dated
from logdex.kafka.directory.misnamed import Misnamed, misnamed_files
from logdex.kafka.files import file_names as files
from logdex.kafka.files.file_names import parse_offset_file
from logdex.kafka.files.metadata_files import MetaProperties, PartitionMetadata
from logdex.kafka.verify.checks import MOVE_AWAY, RESTORE, RESTORE_LOG, RESTORE_META, Collector

_BROKER_SUFFIXES = (*files.SEGMENT_SUFFIXES, files.SNAPSHOT_SUFFIX)
_OFFSET_SUFFIXES = (*_BROKER_SUFFIXES, files.KEY_INDEX_SUFFIX)
_LEFTOVER = (files.DELETED_SUFFIX, files.CLEANED_SUFFIX, files.SWAP_SUFFIX, ".tmp")
_KNOWN = {
    files.LEADER_EPOCH_CHECKPOINT,
    files.PARTITION_METADATA,
    files.LOCK_FILE,
    LOCK_NAME,
    "quorum-state",
    files.LONE_CLEAN_MARK,  # outside any log directory a partition holds its own checkpoints
    files.RECOVERY_POINT_CHECKPOINT,
    files.LOG_START_CHECKPOINT,
    files.CLEANER_CHECKPOINT,
}
_FOREIGN = {
    "foreign-file": "not one of Kafka's files",
    "lost-and-found": "batches that a recovery could not place: logdex cat shows them",
}
_QUORUM_SNAPSHOT = ".checkpoint"


def list_offset_files(directory: str, out: Collector, env: Env) -> dict[str, dict[int, str]]:
    """Returns the files of a partition that are named by an offset, as paths by offset by suffix.
    Reports other names as findings or as information."""
    found: dict[str, dict[int, str]] = {suffix: {} for suffix in _OFFSET_SUFFIXES}
    names = env.list_dir(directory)
    moved = misnamed_files(directory, (name for name in names if env.is_file(f"{directory}/{name}")), env)
    for name in names:
        path = f"{directory}/{name}"
        parsed = parse_offset_file(name)
        is_file = env.is_file(path)
        if name in moved:
            _tell_misnamed(moved[name], directory, found, out)
        elif parsed is not None and parsed[1] in found:
            if is_file:
                found[parsed[1]][parsed[0]] = path
            elif env.exists(path):
                expected = "a file of a segment"
                out.find("unreadable", path, 0, "not a regular file", expected=expected, mend=MOVE_AWAY)
        elif (name in _KNOWN or is_dated(name)) and is_file:
            continue
        elif is_file and name.endswith(_LEFTOVER):
            out.info("leftover", path, "left by a deletion, a cleaning or a crash: the broker's next start sees to it")
        elif is_file and name.endswith(_BROKER_SUFFIXES):
            out.find(
                "file-name",
                path,
                0,
                "no file of a segment has such a name: a broker fails to start on it",
                expected="20 digits and the suffix",
                found=name,
                mend=MOVE_AWAY,
            )
        elif not name.endswith(_QUORUM_SNAPSHOT) and name != files.READERS_DIR:
            kind = "lost-and-found" if name == files.LOST_AND_FOUND else "foreign-file"
            out.info(kind, path, _FOREIGN[kind])
    _check_orphans(found, out)
    return found


def _tell_misnamed(file: Misnamed, directory: str, found: dict[str, dict[int, str]], out: Collector) -> None:
    """Reports a segment's file with a wrong name. It is checked under its right name, if no other
    file has that."""
    path, right = f"{directory}/{file.name}", f"{directory}/{file.right_name}"
    message = "no file of a segment has such a name: a broker fails to start on it"
    if parse_offset_file(file.name) is not None:
        message = "the file belongs to the segment of another offset than its name says"
    mend = f"mv {shlex.quote(path)} {shlex.quote(right)}" if file.is_free else MOVE_AWAY
    out.find("file-name", path, 0, message, expected=file.right_name, found=file.name, mend=mend)
    if file.is_free:
        found[file.suffix][file.base_offset] = path


def _check_orphans(found: dict[str, dict[int, str]], out: Collector) -> None:
    logs = found[files.LOG_SUFFIX]
    for suffix in (files.INDEX_SUFFIX, files.TIME_INDEX_SUFFIX, files.TXN_INDEX_SUFFIX):
        for offset, path in found[suffix].items():
            if offset not in logs:
                expected = files.offset_file_name(offset, files.LOG_SUFFIX)
                out.find("log-missing", path, 0, "an index without its log", expected=expected, mend=RESTORE_LOG)


def check_partition_metadata(directory: str, out: Collector, env: Env) -> None:
    """Reports a finding if `partition.metadata` exists and cannot be read: a broker fails to start
    on it."""
    path = f"{directory}/{files.PARTITION_METADATA}"
    if env.exists(path):
        _readable("partition-metadata", path, lambda: PartitionMetadata.read(path, env=env), RESTORE, out)


def check_meta_properties(directory: str, out: Collector, env: Env) -> None:
    """Reports a finding if `meta.properties` exists and cannot be read, and information if it does
    not exist."""
    path = f"{directory}/{files.META_PROPERTIES}"
    if env.exists(path):
        _readable("meta-properties", path, lambda: MetaProperties.read(path, env=env), RESTORE_META, out)
    else:
        out.info("no-meta-properties", path, "there is no such file: a broker formats the directory first")


def _readable(check: str, path: str, read: Callable[[], object], mend: str, out: Collector) -> None:
    out.files += 1
    try:
        read()
    except (CorruptError, UnreadableError) as error:
        out.find_error(check, error, mend)
