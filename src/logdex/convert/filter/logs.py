"""Some of the records of Kafka partitions as a new log directory.

The records are written in new batches: their keys, values, headers, times and, unless asked
otherwise, their offsets stay. Producers, transactions and leader epochs do not, because a batch of
some of a producer's records has no place in that producer's sequence.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logdex import limits
from logdex.convert.filter.readers import MovedReaders
from logdex.convert.new_directory import new_directory
from logdex.convert.partition_writer import PartitionWriter
from logdex.convert.report import ConvertReport
from logdex.convert.sources.kafka import open_transaction, unless_deleted
from logdex.io.atomic_file import write_atomically
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import StrPath
from logdex.jobs.work_time import work_seconds
from logdex.kafka.batch.record import Compression, Record
from logdex.kafka.directory.unfinished import require_whole_logs
from logdex.kafka.files.checkpoints import TopicPartition
from logdex.kafka.files.file_names import META_PROPERTIES, PARTITION_METADATA
from logdex.kafka.read.record_scan import KafkaScan, records_of
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.primitives.shown import counted

OFFSET_TOPICS = frozenset(("__consumer_offsets", "__transaction_state"))
"""The topics whose records name offsets of other partitions."""
_COLUMNS = ["key", "value", "timestamp_ms", "headers"]

Passes = Callable[[PartitionSnapshot, Record], bool]


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
    of the command, for whoever has to type it again. Bad batches are losses of the report. Raises
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
                if new_offsets and partition.topic in OFFSET_TOPICS:
                    left_out[partition.topic] += len(batch)
                    continue
                batch = batch if passes is None else _passing(batch, partition, passes)
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
    ]
    is_open = partial(open_transaction, wanted=scan.wanted)
    report.notes += filter(None, (unless_deleted(partition, is_open) for partition in scan.partitions))
    if moved:
        report.notes.append(f"offsets were moved up where they do not rise: {', '.join(moved)}")
    report.losses += [problem.message for problem in scan.problems]
    report.losses += [end.end.error.message for end in scan.ends if not end.is_good and end.end.error is not None]
    report.losses += [f"{partition.path}: deleted by the broker meanwhile" for partition in scan.deleted]
    report.seconds = work_seconds() - started
    return report


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
