"""The small files of a recovered store: the checkpoint and the broker's configuration."""

from __future__ import annotations

from logdex import limits
from logdex.errors import CorruptError, StoreError, UnreadableError
from logdex.io.env import Env
from logdex.io.output_files import OutputFiles
from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.files.config_files import require_config
from logdex.rocketmq.files.store_files import CHECKPOINT_FILE, INDEX_DIR, StorePaths
from logdex.rocketmq.geometry.index_geometry import read_header
from logdex.rocketmq.index_file.index_paths import list_index_files
from logdex.rocketmq.recover.place import NewLog
from logdex.rocketmq.settings.dialect import Dialect

CONFIG_DIR = "config"


def write_checkpoint(root: str, directory: str, log: NewLog, dialect: Dialect, output: OutputFiles, env: Env) -> None:
    """Writes ``directory/checkpoint``, which states that all files of the new store are on disk.
    What the old one states of replication is taken over, up to the end of the new log."""
    try:
        old = StoreCheckpoint.read(StorePaths(root).checkpoint, env=env)
    except StoreError:
        old = StoreCheckpoint()
    pieces = [(file.scanned.start_offset + piece.last_at, piece) for file in log.files for piece in file.pieces]
    last_offset, last_ms = (pieces[-1][0], max(pieces[-1][1].last_ms, 0)) if pieces else (0, 0)
    files = list_index_files(f"{directory}/{INDEX_DIR}", env)
    index_ms = max((_end_timestamp_ms(path, env) for path in files), default=0)
    checkpoint = StoreCheckpoint(
        physic_msg_timestamp_ms=last_ms,
        logics_msg_timestamp_ms=last_ms,
        index_msg_timestamp_ms=max(index_ms, 0),
        master_flushed_offset=max(old.master_flushed_offset, 0),
        confirm_phy_offset=min(max(old.confirm_phy_offset, 0), log.end_offset),
        logics_physical_offset=last_offset if dialect.checkpoint_has_logics_offset else 0,
    )
    output.put(f"{directory}/{CHECKPOINT_FILE}", checkpoint.pack())


def _end_timestamp_ms(path: str, env: Env) -> int:
    with env.open_read(path) as file:
        return read_header(file).end_timestamp_ms


def copy_config(root: str, directory: str, output: OutputFiles, notes: list[str], env: Env) -> bool:
    """Copies the files of ``root/config`` to ``directory/config``. A broker falls back on FILE.bak
    for a .json that it cannot parse, so such a file is not copied. Returns whether any file was
    copied."""
    config = f"{root}/{CONFIG_DIR}"
    copied = False
    for name in env.list_dir(config) if env.is_dir(config) else []:
        path = f"{config}/{name}"
        if not env.is_file(path):
            notes.append(f"{path} is no file: not taken over")
            continue
        try:
            data = env.read_file(path, limits.CONFIG_FILE_SIZE_BYTES_MAX)
            if name.endswith(".json") and data:
                require_config(data, path)
        except (CorruptError, UnreadableError) as error:
            notes.append(f"{error.message}: not taken over")
            continue
        output.put(f"{directory}/{CONFIG_DIR}/{name}", data)
        copied = True
    return copied
