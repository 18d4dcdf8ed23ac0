"""Whether the free space suffices for what a job writes, by how much of its source is in use: the
length of a file without the zeros at its end. Brokers allocate their files in advance, so that a
log of a few messages can be as long as one that is full."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from logdex.errors import StorageError, VanishedError
from logdex.io.env import Env

_BLOCK, _BLOCK_MAX = 1 << 12, 1 << 22


def require_free_for(
    output: str, files: Sequence[tuple[str, int]], estimate: Callable[[list[int]], int], env: Env
) -> None:
    """Raises `EnvironmentProblem` unless there is space in `output` for what is derived from some
    files, given as (path, size). `estimate` takes their sizes in bytes.

    The files are read only if their whole sizes ask for too much: then what is in use counts.
    """
    sizes = [size for _, size in files]
    if not env.has_free(output, estimate(sizes)):
        sizes = [_used_if_there(path, env) for path, _ in files]
    env.require_free(output, estimate(sizes))


def _used_if_there(path: str, env: Env) -> int:
    try:
        return used_bytes(path, env)
    except VanishedError:  # a broker has removed it meanwhile
        return 0


def used_bytes(path: str, env: Env) -> int:
    """Returns the length of a file up to its last byte that is not zero. The file is read from its
    end, in blocks. What cannot be read counts as in use."""
    with env.open_read(path) as file:
        end, block = file.data_end(0), _BLOCK
        while end > 0:
            start = max(end - block, 0)
            try:
                data = file.read_at(start, end - start).rstrip(b"\0")
            except StorageError:
                return end
            if data:
                return start + len(data)
            end, block = start, min(4 * block, _BLOCK_MAX)
    return 0
