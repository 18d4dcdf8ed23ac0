"""`logdex warm-up` for Kafka: a small partition, which calls the kernels that write one."""

from __future__ import annotations

from logdex.cli.views.kafka.records import RECORDS
from logdex.io.env import DEFAULT_ENV

ROWS = RECORDS
"""How its records are printed."""

REBUILD_SETTINGS: dict[str, bool] = {"key_index": True}
"""Those with which a rebuild calls all kernels that it may call."""

_RECORDS, _BATCH_RECORDS = 2_000, 50
"""So many batches that the sparse indexes have entries."""


def make(folder: str) -> str:
    """Writes a partition with a few records of each codec, compacts it, and returns its path."""
    import pyarrow as pa

    from logdex.kafka import Log, Record
    from logdex.kafka.batch.record import Compression

    path = f"{folder}/warm-0"
    table = pa.table(
        {
            "key": [b"key-%d" % (number % 1_000) for number in range(_RECORDS)],
            "value": [b"value %d" % number for number in range(_RECORDS)],
            "headers": [[{"key": b"header", "value": b"x"}]] * _RECORDS,
        }
    )
    with Log.open(path, segment_bytes=1 << 16, cleanup_policy="compact") as log:
        for codec in Compression:
            log.append_columns(table, compression=codec, batch_records=_BATCH_RECORDS)
        log.append([Record(key=b"key", value=b"value")], producer_id=1, producer_epoch=0)
        with log.transaction(producer_id=2) as transaction:
            transaction.append([Record(key=b"key", value=b"value")])
        log.compact()
        list(log.records())
    return path


def look_up(path: str) -> None:
    """Looks up records through the indexes, one by one and in bulk."""
    import numpy as np

    from logdex.kafka.files.file_names import KEY_INDEX_SUFFIX, LOG_SUFFIX
    from logdex.kafka.key_index.reader import KeyIndex
    from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot

    with PartitionSnapshot(path) as snapshot:
        snapshot.query("key-1")
        segment = snapshot.segments[-1]
        segment.offset_index.lookup_many(np.zeros(1, np.int64))
        segment.time_index.lookup_many(np.zeros(1, np.int64))
        with KeyIndex.open(segment.log.path.removesuffix(LOG_SUFFIX) + KEY_INDEX_SUFFIX) as index:
            index.lookup_many([b"key-1"])


def damage(path: str) -> None:
    """Changes a byte of the log, so that what reads it has to go on behind that."""
    from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot

    with PartitionSnapshot(path) as snapshot:
        file_path = snapshot.segments[-1].log.path
    with DEFAULT_ENV.open_write(file_path) as file:
        file.write_at(DEFAULT_ENV.size_bytes(file_path) // 2, b"X")
