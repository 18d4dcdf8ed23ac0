"""`logdex warm-up` for RocketMQ: a small store, which calls the kernels that write one."""

from __future__ import annotations

from logdex.cli.views.rocketmq.messages import MESSAGES
from logdex.io.env import DEFAULT_ENV

ROWS = MESSAGES
"""How its messages are printed."""

REBUILD_SETTINGS: dict[str, bool] = {}
"""Those with which a rebuild calls all kernels that it may call."""

_MESSAGES = 2_000


def make(folder: str) -> str:
    """Writes a store with a few messages, reads some of them back, and returns its path."""
    import pyarrow as pa

    from logdex.rocketmq import Message, MessageStore

    path = f"{folder}/store"
    table = pa.table(
        {
            "topic": ["warm-up"] * _MESSAGES,
            "keys": [f"key-{number}" for number in range(_MESSAGES)],
            "tags": [f"tag-{number % 3}" for number in range(_MESSAGES)],
            "body": [b"body %d" % number for number in range(_MESSAGES)],
        }
    )
    sizes = {"mapped_file_size_commit_log": 1 << 18, "max_hash_slot_num": 500, "max_index_num": 2_000}
    with MessageStore.open(path, **sizes) as store:  # type: ignore[arg-type]  # sizes of one type
        store.put_columns(table)
        store.put_messages([Message("warm-up", b"body", keys="one", queue_id=0)] * 2)
        store.wait_dispatched()
        store.query_message("warm-up", "key-1")
        store.get_columns("warm-up", 0, 0)
    return path


def look_up(path: str) -> None:
    """Looks up messages through the indexes."""
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

    with StoreSnapshot(path) as snapshot:
        snapshot.query_message("warm-up", "key-1")
        snapshot.get_columns("warm-up", 0, 0, tags="tag-1")


def damage(path: str) -> None:
    """Changes a byte of the log, so that what reads it has to go on behind that."""
    from logdex.rocketmq.files.store_files import StorePaths

    file_path = f"{StorePaths(path).commit_log}/{0:020d}"
    with DEFAULT_ENV.open_write(file_path) as file:
        file.write_at(DEFAULT_ENV.size_bytes(file_path) // 2, b"X")
