"""What a rebuild adds for a store that was not shut down cleanly, so that the broker's next start
keeps the rebuilt IndexFiles.

After a crash a broker deletes every IndexFile whose last entry is newer than the checkpoint's
indexMsgTimestamp, because only full files are flushed. It derives the entries anew only from the
CommitLog file on with which its recovery begins: the keys of older messages would be lost. The
rebuilt files are whole and flushed, and a checkpoint says so.

Source: ``docs/formats/checkpoint.md``; IndexService.load, StoreCheckpoint.
"""

from __future__ import annotations

from logdex.io.env import Env
from logdex.layout.rocketmq import CHECKPOINT, CHECKPOINT_FILE_SIZE_BYTES
from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.files.store_files import CHECKPOINT_FILE, INDEX_DIR, StorePaths
from logdex.rocketmq.geometry.index_geometry import read_header
from logdex.rocketmq.index_file.index_paths import list_index_files


def add_checkpoint(root: str, directory: str, *, sync: bool, env: Env) -> bool:
    """Writes ``directory/checkpoint`` if the store at `root` was not shut down cleanly and its next
    start would delete IndexFiles of ``directory/index``. Returns whether it did.

    It is the store's checkpoint with a later indexMsgTimestamp, or one with this field alone.
    """
    paths = StorePaths(root)
    if not env.exists(paths.abort):
        return False
    files = list_index_files(f"{directory}/{INDEX_DIR}", env)
    newest_ms = max((_end_timestamp_ms(path, env) for path in files), default=0)
    data = _checkpoint_bytes(paths.checkpoint, env)
    checkpoint = StoreCheckpoint.unpack(data)
    if newest_ms <= checkpoint.index_msg_timestamp_ms:
        return False
    changed = checkpoint._replace(index_msg_timestamp_ms=newest_ms).pack()
    with env.open_write(f"{directory}/{CHECKPOINT_FILE}", exclusive=True) as file:
        file.write_at(0, changed[: CHECKPOINT.size_bytes] + data[CHECKPOINT.size_bytes :])
        if sync:
            file.sync()
    return True


def _end_timestamp_ms(path: str, env: Env) -> int:
    with env.open_read(path) as file:
        return read_header(file).end_timestamp_ms


def _checkpoint_bytes(path: str, env: Env) -> bytes:
    """The bytes of a checkpoint; zeros, as of a new one, where there are none."""
    if not env.is_file(path):
        return bytes(CHECKPOINT_FILE_SIZE_BYTES)
    with env.open_read(path) as file:
        return file.read_at(0, CHECKPOINT_FILE_SIZE_BYTES).ljust(CHECKPOINT_FILE_SIZE_BYTES, b"\0")
