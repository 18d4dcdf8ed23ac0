"""SQL over what is at a path, through DuckDB (the extra ``logdex[sql]``)."""

from __future__ import annotations

from typing import Unpack

from logdex.errors import UsageError
from logdex.formats.settings import SqlOptions
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import StrPath
from logdex.jobs.settings import require_known
from logdex.sql.session import SqlSession as SqlSession

__all__ = ["SqlSession", "connect"]


def connect(path: StrPath, *, env: Env | None = None, **options: Unpack[SqlOptions]) -> SqlSession:
    """Opens what is at `path` for SQL, read-only.

    The tables of a RocketMQ store are `messages`, `message_keys`, `queues`, `segments`,
    `index_entries` and `consumer_offsets`; those of a Kafka path `records`, `partitions`,
    `segments`, `index_entries` and `consumer_offsets`. `options` are the settings of `logdex.open`;
    for a store `time_slack_ms` (how far the broker's clock may have gone back, so that times
    exclude parts of the log) and `decompress` (compressed bodies are decompressed); for Kafka
    `control` and `isolation`, as for `scan`.

    Raises `EnvironmentProblem` without DuckDB, and the errors of `logdex.open`.
    """
    from logdex.formats import detect, format_of, refuse_other_settings

    require_known(options, SqlOptions)
    env = env or DEFAULT_ENV
    found = detect(path, env=env)
    kind = format_of(found)
    if kind.tables is None:
        raise UsageError(f"{found.path} is {found.description}, which has no tables")
    own = {name: value for name, value in options.items() if name in kind.table_options}
    settings = {name: value for name, value in options.items() if name not in own}
    refuse_other_settings(found, settings)
    snapshot = kind.open(found, env=env, **settings)
    return SqlSession(kind.tables(found, snapshot, env=env, **own), snapshot)
