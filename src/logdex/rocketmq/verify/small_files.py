"""Checks the small files of a store: checkpoint, abort, lock, config/*.json."""

from __future__ import annotations

import contextlib
import posixpath
import shlex
from collections.abc import Collection

from logdex import limits
from logdex.errors import CorruptError, StoreError, UnreadableError, UnusableFileError, VanishedError
from logdex.io.env import Env
from logdex.jobs import look_again
from logdex.jobs.findings import Finding
from logdex.layout.rocketmq import CHECKPOINT, CHECKPOINT_FILE_SIZE_BYTES
from logdex.rocketmq.consume_queue.consume_queue import is_queue_id
from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.files.config_files import require_config
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.index_file.index_paths import no_index_files
from logdex.rocketmq.verify.checks import LET_READ, MOVE_AWAY, RESTORE, Collector

_SMALL_FILE_SIZE_BYTES_MAX = 1 << 16
_LOOKS = 3
_MEND_CHECKPOINT = "move the checkpoint away: a broker's next start makes one and goes through the whole log"
_MEND_AHEAD = "move the checkpoint away, but restore the log's last file first if it was cut or lost"

_MEND_NO_CONFIG = f"{MOVE_AWAY}: the broker falls back on the .bak file"
_MEND_LOCK = "look at what it is, and move it away while no broker runs: its next start makes one"
_MEND_ABORT = (
    "look at what it is, and put an empty file in its place if the broker crashed, or move it away if it was shut down"
)


def check_directories(root: str, out: Collector, env: Env) -> None:
    """Reports what is no directory and stands where a store has one, and what is no file and has
    the name of an IndexFile. A file in ``consumequeue/`` is passed over, as by a broker."""
    paths = StorePaths(root)
    topics = _below(paths.consume_queue, env)
    queues = [path for topic in topics for path in _below(topic, env) if is_queue_id(posixpath.basename(path))]
    topics = [path for path in topics if not env.is_file(path)]
    for path in (paths.consume_queue, paths.index, paths.config, *topics, *queues):
        if not env.is_dir(path) and env.exists(path):
            out.find("unreadable", path, 0, "this is not a directory", expected="a directory", mend=MOVE_AWAY)
    for error in no_index_files(paths.index, env):
        out.find_error("unreadable", error, out.rebuild)


def _below(path: str, env: Env) -> list[str]:
    """Returns the paths in a directory; none if a broker is removing it, or it is none."""
    try:
        return [f"{path}/{name}" for name in env.list_dir(path)] if env.is_dir(path) else []
    except VanishedError:
        return []


def check_abort_and_lock(root: str, out: Collector, env: Env) -> bool:
    """Checks the files abort and lock. Returns whether the store was not shut down cleanly, and
    reports it as information."""
    paths = StorePaths(root)
    mends = {"abort": _MEND_ABORT, "lock": _MEND_LOCK}
    for check, path in (("abort", paths.abort), ("lock", paths.lock)):
        if not env.exists(path):
            continue
        out.files += 1
        with contextlib.suppress(VanishedError):  # a broker that shuts down removes `abort`
            if not env.is_file(path) and env.exists(path):
                out.find(check, path, 0, "no file", expected="a small file", mend=mends[check])
            elif (size := env.size_bytes(path)) > _SMALL_FILE_SIZE_BYTES_MAX:
                out.find(
                    check,
                    path,
                    _SMALL_FILE_SIZE_BYTES_MAX,
                    "too long for what it is",
                    expected=f"at most {_SMALL_FILE_SIZE_BYTES_MAX} bytes",
                    found=size,
                    mend=mends[check],
                )
    if not env.exists(paths.abort):
        return False
    out.info("unclean-end", paths.abort, "a broker runs on this directory, or did not shut down cleanly")
    return True


def check_checkpoint(
    root: str,
    max_store_timestamp_ms: int,
    end_offset: int,
    out: Collector,
    env: Env,
    *,
    is_missed: bool,
    data: bytes | None = None,
) -> None:
    """Compares the checkpoint with a log that ends at `end_offset` and whose newest message was
    stored at `max_store_timestamp_ms`. With `is_missed`, a missing checkpoint is reported as
    information. `data` are its bytes if they were read before the end of the log was found."""
    path = StorePaths(root).checkpoint
    if not env.exists(path):
        if is_missed:
            out.info("no-checkpoint", path, "there is none: a broker's next start makes one")
        return
    out.files += 1
    if not env.is_file(path):
        out.find("unreadable", path, 0, "no file", expected="a checkpoint", mend=_MEND_CHECKPOINT)
        return
    size = env.size_bytes(path)
    if size != CHECKPOINT_FILE_SIZE_BYTES:
        out.find(
            "checkpoint-size",
            path,
            min(size, CHECKPOINT_FILE_SIZE_BYTES),
            "a checkpoint of another size",
            expected=CHECKPOINT_FILE_SIZE_BYTES,
            found=size,
            mend=_MEND_CHECKPOINT,
        )
    if not CHECKPOINT.size_bytes <= size <= limits.CHECKPOINT_SIZE_BYTES_MAX:
        return
    if data is None or len(data) < CHECKPOINT.size_bytes:
        try:
            data = env.read_file(path, limits.CHECKPOINT_SIZE_BYTES_MAX)
        except UnreadableError as error:
            out.find_error("unreadable", error, _MEND_CHECKPOINT)
            return
    checkpoint = StoreCheckpoint.unpack(data, path=path)
    for name, expected, found in checkpoint.problems(
        last_store_timestamp_ms=max_store_timestamp_ms, log_end_offset=end_offset
    ):
        out.find(
            "checkpoint-time" if name.endswith("_ms") else "checkpoint-offset",
            path,
            CHECKPOINT.offset_of(name),
            f"{name} cannot be",
            expected=expected,
            found=found,
            mend=_MEND_AHEAD if found > 0 else _MEND_CHECKPOINT,
        )


def check_config(root: str, out: Collector, env: Env, *, is_unclean: bool, is_missed: bool) -> None:
    """Parses config/*.json as the broker does. For a file that it cannot parse, the broker falls
    back on FILE.bak. With `is_unclean` a broker may be writing a file, so that an odd one is looked
    at again. With `is_missed`, missing topics and consumer offsets are reported as information."""
    paths = StorePaths(root)
    directory = paths.config
    names = env.list_dir(directory) if env.is_dir(directory) else []
    is_missed = is_missed and not is_unclean and env.exists(paths.checkpoint)  # a broker was here
    if is_missed and not _has(names, "topics.json"):
        what, path = ("topics.json", f"{directory}/topics.json") if names else ("config", directory)
        text = f"there is no {what}: a broker that starts here knows no topics: {_copy_of(root, path)}"
        out.info("no-topics", path, text)
    elif is_missed and _has(names, "subscriptionGroup.json") and not _has(names, "consumerOffset.json"):
        path = f"{directory}/consumerOffset.json"  # a broker writes it always, and Logdex no subscriptionGroup.json
        text = "there is none: with a broker that starts here, each group begins anew"
        out.info("no-consumer-offsets", path, f"{text}: {_copy_of(root, path)}")
    for name in names:
        path = f"{directory}/{name}"
        if name.endswith(".json.bak") and name.removesuffix(".bak") not in names and not is_unclean:
            out.info("no-config", path.removesuffix(".bak"), "there is none: the broker falls back on the .bak file")
        if not name.endswith(".json"):
            continue
        problem = _problem_of(path, out, env)
        for _ in range(_LOOKS if is_unclean else 0):
            if problem is None:
                break
            look_again.pause()
            problem = _problem_of(path, out, env) if env.exists(path) else None
        out.files += 1
        if problem is not None:
            out.take(problem)


def _has(names: Collection[str], name: str) -> bool:
    """Whether a file of config/ or its backup is there."""
    return name in names or f"{name}.bak" in names


def _copy_of(root: str, path: str) -> str:
    """Returns the command that takes a path of the store from a backup."""
    return f"cp -r BACKUP/{path.removeprefix(root).lstrip('/')} {shlex.quote(path)}"


def _problem_of(path: str, out: Collector, env: Env) -> Finding | None:
    """Returns the finding about one file of config/, None if the broker can parse it."""
    expected = "a file that can be read"
    if not env.is_file(path):
        return Finding("unreadable", path, 0, "no file", expected, mend=_MEND_NO_CONFIG)
    try:
        data = env.read_file(path, limits.CONFIG_FILE_SIZE_BYTES_MAX)
        if data:
            require_config(data, path)
        else:
            out.info("empty-config", path, "empty: the broker falls back on the .bak file")
    except CorruptError as error:
        wanted, found = ("" if value is None else str(value) for value in (error.expected, error.found))
        mend = _mend_config(path, env)
        what = "the broker cannot parse it" + (f": {error.field}" if error.field else "")
        return Finding("config-json", path, error.position, what, wanted, found, mend)
    except UnusableFileError as error:
        return Finding("unreadable", path, 0, error.reason, expected, mend=_MEND_NO_CONFIG)
    except UnreadableError as error:
        return Finding("unreadable", path, error.position, error.reason, expected, mend=_mend_config(path, env))
    except StoreError as error:
        return Finding("unreadable", path, 0, error.message, expected, mend=LET_READ)
    return None


def _mend_config(path: str, env: Env) -> str:
    backup = f"{path}.bak"
    name = posixpath.basename(backup)
    try:
        data = env.read_file(backup, limits.CONFIG_FILE_SIZE_BYTES_MAX) if env.is_file(backup) else b""
        if not data:
            return f"{RESTORE}: there is no {name}, so that a broker would begin with nothing"
        require_config(data, backup)
    except StoreError:
        return f"{RESTORE}: {name} is not sound either, so that a broker does not start"
    return f"copy {shlex.quote(backup)} over it: the broker falls back on that"
