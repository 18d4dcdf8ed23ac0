"""Where `rebuild` and `recover` write: a staging folder, published at the end; in place logs are locked meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from logdex.errors import UsageError
from logdex.io.env import Env
from logdex.jobs.staging import Staging
from logdex.kafka.directory.log_lock import DirectoryLock
from logdex.kafka.files.file_names import LOCK_FILE


@contextmanager
def staged_output(
    output: str, *, home: str, in_place: bool, partition: str | None, sync: bool, env: Env
) -> Iterator[Staging]:
    """The staging folder for `output`. In place the broker's lock in `home` is held meanwhile, and the folder lies
    within `partition`, a partition's directory, if it is said: a broker that starts takes every folder of a log
    directory for a partition. `LogInUseError` in place while a broker runs."""
    lock = None
    if in_place and env.exists(f"{home}/{LOCK_FILE}"):
        lock = DirectoryLock(home, env=env, exclusive=True)
    try:
        with Staging(env, output, sync=sync, home=partition if in_place else None) as staging:
            yield staging
    finally:
        if lock is not None:
            lock.release()


def require_own_directory(output: str, root: str) -> None:
    """Refuses an output in place, a real path, that is not the directory `root` that is read."""
    if output != root:
        raise UsageError("--in-place writes into the log's own directory", hint="leave out --output")
