"""The segments that a rebuild of Kafka's files reads, and the checks of its output."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from logdex.errors import NotAStoreError, UnusableFileError, UsageError, VanishedError
from logdex.io.env import Env
from logdex.jobs import output as outputs
from logdex.kafka.directory.log_dir import KafkaLogDir
from logdex.kafka.directory.lost_segments import lost_segments
from logdex.kafka.directory.partition_files import (
    home_of,
    is_log_directory,
    not_alone,
    partition_directory,
    stated_start,
)
from logdex.kafka.directory.recognise import KafkaPath, KafkaPathKind
from logdex.kafka.directory.unfinished import require_whole_logs
from logdex.kafka.files.file_names import LOG_SUFFIX, SWAP_SUFFIX, offset_file_name, offsets_of, parse_offset_file
from logdex.kafka.segment.index_interval import DEFAULT_INTERVAL_BYTES


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """A .log to read.

    `partition` is the directory of its files below the output ("" for the output itself),
    `index_interval_bytes` the interval of the indexes to write.
    """

    partition: str
    path: str
    base_offset: int
    size_bytes: int
    index_interval_bytes: int = DEFAULT_INTERVAL_BYTES


@dataclass(slots=True)
class RebuildSource:
    """The segments to rebuild by directory below the output, ordered by base offset. Paths are real
    paths.

    `root` is the directory that contains them, `home` the one where a running broker holds its
    lock. `is_whole` is False for a single segment of a partition.
    """

    root: str
    home: str
    is_whole: bool
    partitions: dict[str, list[SourceSegment]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    """What is a .log and is not read, for its name or because it cannot be read as a file, and the
    segments that are lost."""
    lost: dict[str, set[int]] = field(default_factory=dict)
    """The base offsets of lost segments by directory below the output. In place, their indexes stay
    as they are, because they alone tell of the loss."""

    @property
    def is_log_dir(self) -> bool:
        """Whether partitions have directories of their own below the output."""
        return "" not in self.partitions

    @property
    def segments(self) -> list[SourceSegment]:
        """All segments, partition by partition."""
        return [segment for found in self.partitions.values() for segment in found]

    def list_again(self, folder: str, env: Env) -> list[SourceSegment]:
        """Lists the segments of a partition again, because a broker has removed or replaced some.
        Returns them. A partition that is deleted is noted and left out."""
        first = self.partitions[folder][0]
        directory = posixpath.dirname(first.path)
        try:
            found = _segments_of(folder, directory, env.list_dir(directory), [], env)
        except VanishedError:
            found = []
        if found:
            interval = first.index_interval_bytes
            self.partitions[folder] = [replace(segment, index_interval_bytes=interval) for segment in found]
        else:
            del self.partitions[folder]
            self.notes.append(f"{directory}: deleted by the broker meanwhile")
        return self.partitions.get(folder, [])

    def set_intervals(self, sizes: Mapping[str, int]) -> None:
        """Sets the `index.interval.bytes` of each partition."""
        for folder, size in sizes.items():
            found = self.partitions[folder]
            self.partitions[folder] = [replace(segment, index_interval_bytes=size) for segment in found]

    @property
    def size_bytes(self) -> int:
        """The total size of all .log files."""
        return sum(segment.size_bytes for segment in self.segments)


def find_source(found: KafkaPath, env: Env) -> RebuildSource:
    """Finds the segments at a path. Raises `NotAStoreError` if there is no .log."""
    if found.kind is KafkaPathKind.LOG_DIR:
        root = env.real_path(found.path)
        source = RebuildSource(root, root, is_whole=True)
        for each in KafkaLogDir(replace(found, path=root), env=env).partition_dirs():
            _add(source, each.name, each.path, env)
    elif found.kind is KafkaPathKind.PARTITION:
        root = env.real_path(found.path)
        source = RebuildSource(root, home_of(root, env=env)[0], is_whole=True)
        _add(source, "", root, env)
    elif found.kind is KafkaPathKind.LOG:
        root = env.real_path(partition_directory(found))
        source = RebuildSource(root, home_of(root, env=env)[0], is_whole=False)
        path = posixpath.join(root, posixpath.basename(found.path))
        source.partitions[""] = [SourceSegment("", path, found.offset, env.size_bytes(path))]
    else:
        raise not_alone(found)
    if not source.partitions:
        raise NotAStoreError("contains no .log file", path=found.path, hint="give a directory that contains .log files")
    return source


def _add(source: RebuildSource, folder: str, directory: str, env: Env) -> None:
    try:
        names = env.list_dir(directory)
    except VanishedError:
        return  # deleted since its log directory was listed
    source.notes += [
        f"{directory}/{name} is not read: a broker renames it when it loads the log"
        for name in names
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)
    ]
    source.losses += [
        f"{directory}/{name} is not read: no segment has such a name, and logdex verify says how to mend it"
        for name in names
        if name.endswith(LOG_SUFFIX) and parse_offset_file(name) is None and env.is_file(f"{directory}/{name}")
    ]
    found = _segments_of(folder, directory, names, source.losses, env)
    lost = lost_segments(directory, found, lambda: stated_start(directory, [], env), env)
    source.losses += [f"{each.error().message}; its indexes are left as they are" for each in lost]
    source.lost[folder] = {each.base_offset for each in lost}
    found = [segment for segment in found if segment.base_offset not in source.lost[folder]]
    if found:
        source.partitions[folder] = found


def _segments_of(folder: str, directory: str, names: list[str], losses: list[str], env: Env) -> list[SourceSegment]:
    """Returns the segments of a partition, without those that are removed since its directory was
    listed. What cannot be read as a file is added to `losses`."""
    found = []
    for base in offsets_of(names, LOG_SUFFIX):
        path = f"{directory}/{offset_file_name(base, LOG_SUFFIX)}"
        try:
            with env.open_read(path) as file:
                found.append(SourceSegment(folder, path, base, file.size_bytes))
        except VanishedError:
            continue
        except UnusableFileError as error:
            losses.append(f"{error.message}: not read")
    return found


def check_output(source: RebuildSource, output: str, *, in_place: bool, may_be_in_place: bool = True, env: Env) -> None:
    """Raises `UsageError` if what is rebuilt from `source` may not be written to `output`.

    Besides what holds for all jobs, an output with logs of its own is refused, because the files
    would not be derived from those, and so is another output of half-published logs.
    """
    published = source.partitions if source.is_log_dir else ()
    outputs.check_output(
        output,
        source.root,
        home=source.home,
        published=published,
        in_place=in_place,
        may_be_in_place=may_be_in_place,
        env=env,
    )
    if in_place:
        return
    require_whole_logs((f"{source.root}/{folder}".rstrip("/") for folder in source.partitions), env)
    target = env.real_path(output)
    if is_log_directory(target, env=env):
        raise UsageError(f"{output} is a log directory", hint="choose another --output")
    for folder in (f"{target}/{name}" if name else target for name in source.partitions):
        if env.is_dir(folder) and any(name.endswith(LOG_SUFFIX) for name in env.list_dir(folder)):
            raise UsageError(f"{folder} holds a log of its own", hint="choose another --output")
