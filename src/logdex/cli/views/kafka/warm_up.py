"""`logdex warm-up` for Kafka: a small partition, which calls the kernels that write one."""

from __future__ import annotations

REBUILD_SETTINGS: dict[str, bool] = {"key_index": True}
"""Those with which a rebuild calls all kernels that it may call."""

_RECORDS = 2_000


def make(folder: str) -> str:
    """Writes a partition with a few records of each codec, compacts it, reads it back by key, and
    returns its path."""
    import pyarrow as pa

    from logdex.kafka import Log, Record
    from logdex.kafka.batch.record import Compression
    from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot

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
            log.append_columns(table, compression=codec)
        log.append([Record(key=b"key", value=b"value")], producer_id=1, producer_epoch=0)
        with log.transaction(producer_id=2) as transaction:
            transaction.append([Record(key=b"key", value=b"value")])
        log.compact()
        list(log.records())
    with PartitionSnapshot(path) as snapshot:
        list(snapshot.query("key-1"))
    return path
