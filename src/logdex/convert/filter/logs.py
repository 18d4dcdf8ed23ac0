"""Some of the records of Kafka partitions as a new log directory.

The records are written in new batches: their keys, values, headers, times and, unless asked
otherwise, their offsets stay. Producers, transactions and leader epochs do not, because a batch of
some of a producer's records has no place in that producer's sequence.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logdex import limits
from logdex.convert.filter.readers import MovedReaders
from logdex.convert.new_directory import new_directory
from logdex.convert.partition_writer import PartitionWriter
from logdex.convert.report import ConvertReport
from logdex.convert.sources.kafka import Passes, below_log_start, open_transaction, torn_end, unless_deleted
from logdex.io.atomic_file import write_atomically
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import StrPath
from logdex.jobs.work_time import work_seconds
from logdex.kafka.batch.record import Compression
from logdex.kafka.directory.unfinished import require_whole_logs
from logdex.kafka.files.checkpoints import TopicPartition
from logdex.kafka.files.file_names import META_PROPERTIES, PARTITION_METADATA
from logdex.kafka.read.read_filter import ReadFilter
from logdex.kafka.read.record_scan import KafkaScan, records_of
from logdex.kafka.scan.scanner import EndKind
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.primitives.shown import counted

OFFSET_TOPICS = frozenset(("__consumer_offsets", "__transaction_state"))
"""The topics whose records name offsets of other partitions."""
_COLUMNS = ["key", "value", "timestamp_ms", "headers"]


def filter_logs(
    scan: KafkaScan[PartitionSnapshot],
    output: StrPath,
    passes: Passes | None = None,
    *,
    source: str,
    flags: str = "",
    limit: int | None = None,
    new_offsets: bool = False,
    compression: Compression = Compression.NONE,
    sync: bool = True,
    env: Env = DEFAULT_ENV,
) -> ConvertReport:
    """Writes the records of a scan for which `passes` holds (all if it is None), at most `limit`,
    as a new log directory, which must be empty before.

    With `new_offsets` each partition begins at 0 and has no gaps; records of other partitions'
    offsets (`OFFSET_TOPICS`) are left out then, because they would be wrong. Named readers are
    behind the same records as before. `source` is the real path that is read, and `flags` are those
    of the command, for whoever has to type it again. Bad batches are losses of the report, and what
    a reader of committed records leaves out because of an open transaction is one. Raises
    `UsageError` if it may not write to `output`, and for logs that a killed recovery had replaced.
    """
    started = work_seconds()
    require_whole_logs((partition.directory for partition in scan.partitions), env)
    report = ConvertReport("local", tasks=1)
    left_out: Counter[str] = Counter()
    with new_directory("filter", source, output, flags=flags, sync=sync, env=env) as made:
        report.notes += made.notes
        made.contents = f"{made.home}/logs"
        readers = MovedReaders(scan.partitions, env)
        written: dict[TopicPartition, int] = {}
        sources: dict[TopicPartition, str] = {}
        with PartitionWriter(made.contents, compression=compression, env=env) as writer:
            for partition, batch in scan.batches():
                batch = batch if passes is None else _passing(batch, partition, passes)
                if new_offsets and partition.topic in OFFSET_TOPICS:
                    left_out[partition.topic] += len(batch)
                    continue
                batch = batch if limit is None else batch.slice(0, limit - sum(written.values()))
                if not len(batch):
                    continue
                place = TopicPartition(partition.topic, partition.partition)
                offsets: npt.NDArray[np.int64] = batch.column("offset").to_numpy()
                before = offsets
                if new_offsets:
                    offsets = np.arange(written.get(place, 0), written.get(place, 0) + len(batch))
                readers.add(place, before, offsets)
                writer.append(place, pa.Table.from_batches([batch]).select(_COLUMNS), offsets)
                written[place] = written.get(place, 0) + len(batch)
                sources[place] = partition.path
                if sum(written.values()) == limit:
                    break
            moved = [f"{place.topic}-{place.partition}" for place, shift in writer.shifts.items() if shift]
        report.notes += [*readers.notes, *readers.write(made.contents, writer.ends, new_offsets=new_offsets)]
        _copy_metadata(sources, made.contents, env)
    report.messages, report.files = sum(written.values()), len(written)
    report.bytes = sum(partition.size_bytes for partition in scan.partitions)
    report.notes += [
        f"{counted(number, 'record of', 'records of')} {topic} left out, because offsets are named there"
        for topic, number in left_out.items()
        if number
    ]
    copied = [each for each in scan.partitions if not (new_offsets and each.topic in OFFSET_TOPICS)]
    _tell_of_ends(report, copied, scan.wanted, passes, is_read_to_end=report.messages != limit)
    if moved:
        report.notes.append(f"offsets were moved up where they do not rise: {', '.join(moved)}")
    report.losses += _losses(scan)
    report.seconds = work_seconds() - started
    return report


def _tell_of_ends(
    report: ConvertReport,
    partitions: list[PartitionSnapshot],
    wanted: ReadFilter,
    passes: Passes | None,
    *,
    is_read_to_end: bool,
) -> None:
    """Adds what is left out at the beginnings and ends of partitions to a report."""
    report.notes += _told(partitions, partial(below_log_start, wanted=wanted, passes=passes))
    if is_read_to_end:
        report.notes += _told(partitions, torn_end)
        report.losses += _told(partitions, partial(open_transaction, wanted=wanted, passes=passes))


def _losses(scan: KafkaScan[PartitionSnapshot]) -> Iterator[str]:
    """Yields what a scan could not read. What a crash left unfinished at the end of a log is no
    loss."""
    yield from (problem.message for problem in scan.problems)
    for each in scan.ends:
        is_torn = each.is_last and each.end.kind is EndKind.TORN
        if not each.is_good and not is_torn and each.end.error is not None:
            yield each.end.error.message
    yield from (f"{partition.path}: deleted by the broker meanwhile" for partition in scan.deleted)


def _told(partitions: list[PartitionSnapshot], tell: Callable[[PartitionSnapshot], str | None]) -> Iterator[str]:
    """Yields what is to tell of partitions that a broker has not deleted meanwhile."""
    return filter(None, (unless_deleted(partition, tell) for partition in partitions))


def _passing(batch: pa.RecordBatch, partition: PartitionSnapshot, passes: Passes) -> pa.RecordBatch:
    return batch.filter(pa.array([passes(partition, record) for record in records_of(batch)], pa.bool_()))


def _copy_metadata(sources: dict[TopicPartition, str], contents: str, env: Env) -> None:
    """Copies what identifies the partitions, and their directories, into the new directory."""
    for place, path in sources.items():
        name = f"{place.topic}-{place.partition}/{PARTITION_METADATA}"
        _copy(f"{path}/{PARTITION_METADATA}", f"{contents}/{name}", env)
    for home in {posixpath.dirname(path) for path in sources.values()}:
        _copy(f"{home}/{META_PROPERTIES}", f"{contents}/{META_PROPERTIES}", env)


def _copy(source: str, target: str, env: Env) -> None:
    """Copies a small file, if there is one."""
    if env.is_file(source):
        write_atomically(target, env.read_file(source, limits.CONFIG_FILE_SIZE_BYTES_MAX), env=env)
