"""The small files of a store, and the paths below its root.

Source: ``docs/formats/store-directory.md``; DefaultMessageStore.createTempFile,
StorePathConfigHelper.
"""

from __future__ import annotations

from dataclasses import dataclass

from logdex.errors import StorageError, VanishedError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.primitives.java_hash import decode_utf8

COMMIT_LOG_DIR = "commitlog"
CONSUME_QUEUE_DIR = "consumequeue"
CONSUME_QUEUE_EXT_DIR = "consumequeue_ext"
INDEX_DIR = "index"
ROCKSDB_DIR = "rocksdbstore"
CHECKPOINT_FILE = "checkpoint"

_SMALL_FILE_SIZE_BYTES_MAX = 1 << 16
_FOLDER_NAME_BYTES_MAX = 255


@dataclass(frozen=True, slots=True)
class StorePaths:
    """The paths below a store's root, whether they exist or not."""

    root: str

    @property
    def commit_log(self) -> str:
        """The CommitLog's directory."""
        return f"{self.root}/{COMMIT_LOG_DIR}"

    @property
    def consume_queue(self) -> str:
        """The ConsumeQueues' directory."""
        return f"{self.root}/{CONSUME_QUEUE_DIR}"

    @property
    def index(self) -> str:
        """The IndexFiles' directory."""
        return f"{self.root}/{INDEX_DIR}"

    @property
    def config(self) -> str:
        """The directory of the broker's JSON files."""
        return f"{self.root}/config"

    @property
    def rocksdb_store(self) -> str:
        """The directory of ConsumeQueues in RocksDB, which 5.4.0 and later create in every
        store."""
        return f"{self.root}/{ROCKSDB_DIR}"

    @property
    def checkpoint(self) -> str:
        """The checkpoint file."""
        return f"{self.root}/{CHECKPOINT_FILE}"

    @property
    def abort(self) -> str:
        """A file that exists while a broker runs, and after it was killed."""
        return f"{self.root}/abort"

    @property
    def lock(self) -> str:
        """A file whose first byte a running broker locks."""
        return f"{self.root}/lock"


def queue_folder(topic: bytes, queue_id: int) -> str | None:
    """``topic/queueId``, the directory that the broker uses; None if no directory can have that
    name.

    Bytes that are not UTF-8 become U+FFFD, as in the broker. A name that would leave the parent
    directory is refused.
    """
    name = decode_utf8(topic)
    if name in ("", ".", "..") or "/" in name or "\0" in name or len(name.encode()) > _FOLDER_NAME_BYTES_MAX:
        return None
    return f"{name}/{queue_id}"


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """The small files that a store has."""

    has_abort: bool
    abort_text: str
    """The contents of `abort`: the broker's process id in 5.x, nothing in 4.x."""
    has_abort_bak: bool
    has_lock: bool
    has_checkpoint: bool
    has_rocksdb_store: bool

    @property
    def is_unclean(self) -> bool:
        """Whether a broker runs on this directory, or was killed."""
        return self.has_abort

    @property
    def process_id(self) -> int | None:
        """The process id in `abort`, or None."""
        text = self.abort_text.strip()
        return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None

    @staticmethod
    def read(root: str, *, problems: list[str] | None = None, env: Env = DEFAULT_ENV) -> StoreFiles:
        """Looks for the files below a store's root; creates nothing and takes no lock. With
        `problems`, an `abort` that cannot be read is added there, instead of raising an error."""
        paths = StorePaths(root)
        text = ""
        try:
            if env.is_file(paths.abort):
                text = env.read_file(paths.abort, _SMALL_FILE_SIZE_BYTES_MAX).decode("utf-8", "backslashreplace")
        except VanishedError:
            pass  # a broker that shuts down removes it
        except StorageError as error:
            if problems is None:
                raise
            problems.append(error.message)
        return StoreFiles(
            has_abort=env.exists(paths.abort),
            abort_text=text,
            has_abort_bak=env.exists(f"{paths.abort}.bak"),
            has_lock=env.exists(paths.lock),
            has_checkpoint=env.exists(paths.checkpoint),
            has_rocksdb_store=env.is_dir(paths.rocksdb_store),
        )
