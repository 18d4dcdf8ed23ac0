"""Finds what `recover` reads: the logs of each partition, with whole `.swap` files in place of the
segments that they replace, and the names that are not copied.

Source: Kafka's LogLoader (swap files); ``docs/design/0009-kafka-recover.md``.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field, replace

from logdex.errors import UsageError, VanishedError
from logdex.io.env import Env
from logdex.jobs import output as outputs
from logdex.jobs.journal import LOCK_NAME
from logdex.jobs.look_again import Looks, pause
from logdex.kafka.directory.leftovers import covered_offsets, first_cleaned_offset
from logdex.kafka.directory.log_dir import KafkaLogDir
from logdex.kafka.directory.lost_segments import find_lost
from logdex.kafka.directory.misnamed import Misnamed, misnamed_files
from logdex.kafka.directory.partition_files import home_of, partition_directory
from logdex.kafka.directory.recognise import KafkaPath, KafkaPathKind
from logdex.kafka.directory.unfinished import require_whole_logs
from logdex.kafka.files import file_names as files
from logdex.kafka.files.checkpoints import TopicPartition
from logdex.kafka.files.file_names import parse_offset_file, parse_partition_dir
from logdex.kafka.recover.partition_scan import SourceLog
from logdex.kafka.recover.report import Skipped
from logdex.kafka.scan.scanner import BatchScanner
from logdex.primitives.shown import counted

_DERIVED = {*files.SEGMENT_SUFFIXES, files.SNAPSHOT_SUFFIX, files.KEY_INDEX_SUFFIX} - {files.LOG_SUFFIX}
_OWN_NAMES = {
    files.LOCK_FILE,
    LOCK_NAME,
    files.LONE_CLEAN_MARK,
    files.LEADER_EPOCH_CHECKPOINT,
    files.PARTITION_METADATA,
}
_OWN_NAMES |= {files.RECOVERY_POINT_CHECKPOINT, files.LOG_START_CHECKPOINT}
_COPIED_SUFFIX, _COPIED_NAME = ".checkpoint", "quorum-state"


@dataclass(slots=True)
class SourcePartition:
    """A partition to read: its `folder` below the output ("" for the output itself), its logs in
    order of base offset, the files to copy unchanged, and what is lost with logs that are not
    there."""

    folder: str
    directory: str
    name: TopicPartition | None
    logs: list[SourceLog] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)
    missing: list[Skipped] = field(default_factory=list)

    @property
    def place(self) -> TopicPartition:
        """The partition, also if its directory has no partition's name: then a made-up one, which
        the only line of its own checkpoint can have."""
        return self.name or TopicPartition("unnamed", 0)


@dataclass(slots=True)
class RecoverSource:
    """Everything that is read. `root` is the directory that the output mirrors, `home` the one with
    the broker's lock. `is_whole` is False for a single segment."""

    root: str
    home: str
    is_log_dir: bool
    is_whole: bool
    partitions: list[SourcePartition] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """The size of all logs in bytes."""
        return sum(log.size_bytes for partition in self.partitions for log in partition.logs)


def find_source(found: KafkaPath, env: Env) -> RecoverSource:
    """Returns the logs at a path. Raises `UsageError` for a file that is not a .log."""
    if found.kind is KafkaPathKind.LOG_DIR:
        root = env.real_path(found.path)
        source = RecoverSource(root, root, is_log_dir=True, is_whole=True)
        log_dir = KafkaLogDir(replace(found, path=root), env=env)
        for each in log_dir.partition_dirs(marked=True):
            if each.mark is None:
                _add(source, SourcePartition(each.name, each.path, each.topic_partition), env)
            else:
                source.notes.append(f"{each.path} is marked {each.mark}: not taken over")
        source.notes += [f"{root}/{name} is not one of Kafka's: not taken over" for name in log_dir.other_names()]
        if missing := [*map(str, log_dir.missing_partitions())]:
            shown = ", ".join(missing[:5]) + (", …" if len(missing) > 5 else "")
            told = counted(len(missing), "partition that is", "partitions that are")
            source.notes.append(f"{root}: its checkpoints name {told} not here, and not taken over: {shown}")
        return source
    if found.kind not in (KafkaPathKind.PARTITION, KafkaPathKind.LOG):
        raise UsageError(
            f"{found.path}: everything is recovered from the log", hint="give the .log, or the directory that it is in"
        )
    is_whole = found.kind is KafkaPathKind.PARTITION
    root = env.real_path(partition_directory(found))
    source = RecoverSource(root, home_of(root, env=env)[0], is_log_dir=False, is_whole=is_whole)
    named = parse_partition_dir(posixpath.basename(root))
    name = None if named is None or named.mark else TopicPartition(named.topic, named.partition)
    partition = SourcePartition("", root, name)
    if is_whole:
        _add(source, partition, env)
    else:
        path = posixpath.join(root, posixpath.basename(found.path))
        partition.logs.append(SourceLog(path, found.offset, env.size_bytes(path)))
        source.partitions.append(partition)
    return source


def _add(source: RecoverSource, partition: SourcePartition, env: Env) -> None:
    listed, notes = list_partition(partition, env)
    source.notes += notes
    if listed is not None:
        source.partitions.append(listed)


def list_partition(partition: SourcePartition, env: Env) -> tuple[SourcePartition | None, list[str]]:
    """Lists the files of a partition, again if a broker has removed some meanwhile. Returns None in
    place of a log directory's partition that was deleted, and notes for the report. Raises
    `VanishedError` if files are removed again and again, or a lone partition was deleted."""
    looks = Looks(is_beside=True)
    while True:
        found, notes = replace(partition, logs=[], copied=[], missing=[]), list[str]()
        try:
            _list(found, notes, env)
            return found, notes
        except VanishedError:
            if not env.exists(partition.directory):
                if not partition.folder:
                    raise VanishedError("the partition was removed meanwhile", path=partition.directory) from None
                return None, [f"{partition.directory}: deleted by the broker meanwhile"]
            if looks.fails():
                raise
        pause()


def _list(partition: SourcePartition, notes: list[str], env: Env) -> None:
    logs: dict[int, str] = {}
    swaps: dict[int, str] = {}
    indexes: dict[int, list[str]] = {}
    names = [
        name for name in env.list_dir(partition.directory) if _is_taken(f"{partition.directory}/{name}", name, env)
    ]
    first_cleaned = first_cleaned_offset(names)
    moved = misnamed_files(partition.directory, names, env)
    copies = [_read_as(file, partition.directory, notes, env) for file in moved.values() if file.is_log]
    for name in names:
        path = f"{partition.directory}/{name}"
        file = moved.get(name)
        if file is not None and not file.is_free:
            continue
        parsed = parse_offset_file(name if file is None else file.right_name)
        stem = parse_offset_file(name.removesuffix(files.SWAP_SUFFIX))
        cleaned = parse_offset_file(name.removesuffix(files.CLEANED_SUFFIX))
        if parsed is not None and parsed[1] == files.LOG_SUFFIX:
            logs[parsed[0]] = path
        elif parsed is not None and parsed[1] in files.SEGMENT_SUFFIXES:
            indexes.setdefault(parsed[0], []).append(path)
        elif name.endswith(files.SWAP_SUFFIX) and stem is not None and stem[1] == files.LOG_SUFFIX:
            if stem[0] < first_cleaned:
                swaps[stem[0]] = path
        elif name.endswith(_COPIED_SUFFIX) or name == _COPIED_NAME:
            partition.copied.append(name)
        elif name.endswith(files.CLEANED_SUFFIX) and cleaned is not None:
            continue  # only partly written
        elif name not in _OWN_NAMES and (parsed is None or parsed[1] not in _DERIVED):
            notes.append(f"{path}: {env.size_bytes(path)} bytes, not taken over")
    covered = _take_swaps(notes, logs, swaps, env)
    indexes = {base: paths for base, paths in indexes.items() if base in logs or base not in covered}
    own = [SourceLog(path, base, _size_bytes(path, env)) for base, path in sorted(logs.items())]
    copies = [log for log in copies if log not in own]
    partition.logs = sorted([*own, *copies], key=lambda log: log.base_offset)
    _tell_missing(notes, partition, names, indexes, env)


def _read_as(file: Misnamed, directory: str, notes: list[str], env: Env) -> SourceLog:
    """Returns a misnamed .log under its right name, which a note tells."""
    path = f"{directory}/{file.name}"
    notes.append(f"{path}: read as {file.right_name}, which its name should be")
    return SourceLog(path, file.base_offset, _size_bytes(path, env))


def forget_expired(partition: SourcePartition, path: str, env: Env) -> list[SourceLog]:
    """Removes from a partition's logs those that a broker has removed because they were old: the
    log at `path`, and all before it. Returns them. It returns none if one of them is there, or a
    log with lower offsets or without offsets in its name, or if no other is left."""
    gone = next((log for log in partition.logs if log.path == path), None)
    if gone is None:
        return []
    stems = (name.removesuffix(files.SWAP_SUFFIX) for name in env.list_dir(partition.directory))
    left = [parse_offset_file(stem) for stem in stems if stem.endswith(files.LOG_SUFFIX)]
    kept = [log for log in partition.logs if log.base_offset > gone.base_offset]
    if not kept or any(parsed is None or parsed[0] <= gone.base_offset for parsed in left):
        return []
    expired = partition.logs[: len(partition.logs) - len(kept)]
    if any(env.exists(log.path) for log in expired):
        return []  # one that has not the name of its offsets
    partition.logs = kept
    partition.missing = [each for each in partition.missing if each.first_offset >= kept[0].base_offset]
    return expired


def _is_taken(path: str, name: str, env: Env) -> bool:
    """Whether a name is a file's, or one of a .log, of which the scan says why it cannot be read.
    Raises `VanishedError` if nothing has the name any more."""
    if env.is_file(path):
        return True
    if not env.exists(path) and not name.endswith(files.DELETED_SUFFIX):
        raise VanishedError("removed since its directory was listed", path=path)
    parsed = parse_offset_file(name)
    return parsed is not None and parsed[1] == files.LOG_SUFFIX


def _size_bytes(path: str, env: Env) -> int:
    return env.size_bytes(path) if env.is_file(path) else 0


def _tell_missing(
    notes: list[str], partition: SourcePartition, names: list[str], indexes: dict[int, list[str]], env: Env
) -> None:
    """Reports the segments that are lost although their `indexes`, by base offset, are there, and
    notes the other indexes without a log."""
    bases = sorted({log.base_offset for log in partition.logs})
    empty = {log.base_offset for log in partition.logs if not log.size_bytes and env.is_file(log.path)}
    lost = find_lost(partition.directory, names, bases, indexes, empty, env)
    partition.missing = [Skipped(each.path, 0, 0, each.why, each.base_offset, each.next_offset) for each in lost]
    told = {*bases, *(each.base_offset for each in lost)}
    for base in sorted(indexes.keys() - told):
        notes += [f"{each}: an index without its log, not taken over" for each in indexes[base]]


def _take_swaps(notes: list[str], logs: dict[int, str], swaps: dict[int, str], env: Env) -> range:
    """Replaces segments by the `.swap` files that cover them. These are whole files of a cleaning
    or a split that a crash interrupted. Returns the offsets that they cover."""
    covered = covered_offsets({base: _next_offset(path, base, env) for base, path in swaps.items()})
    for base in [base for base in logs if base in covered]:
        notes.append(f"{logs.pop(base)}: replaced by the .swap files of a cleaning or split, as a broker does")
    logs.update(swaps)
    return covered


def _next_offset(path: str, base_offset: int, env: Env) -> int:
    next_offset = base_offset
    for window in BatchScanner(env=env, unreadable_is_damage=True).scan_file(path):
        next_offset = int(window.columns.last_offset[-1]) + 1
    return next_offset


def check_output(source: RecoverSource, output: str, *, in_place: bool, env: Env) -> None:
    """Raises `UsageError` if `source` must not be recovered to `output`, which must be new or empty
    unless `in_place`."""
    outputs.check_output(output, source.root, home=source.home, in_place=in_place, env=env)
    if not in_place:
        require_whole_logs((partition.directory for partition in source.partitions), env)
        outputs.require_empty(output, env=env)
