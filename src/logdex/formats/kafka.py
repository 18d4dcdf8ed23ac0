"""The functions and settings of Kafka in the registry of formats."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from logdex.errors import LogdexError
from logdex.formats.format import Format, RebuildJob, RecoverJob, Settings
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import PathLook
from logdex.jobs.settings import declared_settings, given_flags
from logdex.kafka.settings.log_config import LogConfig

if TYPE_CHECKING:
    from logdex.jobs.findings import VerifyReport
    from logdex.jobs.journal import Unfinished
    from logdex.jobs.reports import Progress
    from logdex.jobs.tasks import Runner
    from logdex.kafka.directory.recognise import KafkaPath
    from logdex.kafka.dispatch.job import LogDispatcher
    from logdex.kafka.rebuild.report import KafkaRebuildReport
    from logdex.kafka.recover.report import RecoverReport
    from logdex.kafka.snapshot.file_overview import KafkaFileOverview
    from logdex.kafka.snapshot.log_dir_snapshot import KafkaSnapshot
    from logdex.kafka.snapshot.overview import KafkaOverview
    from logdex.kafka.tables.log_tables import KafkaTables

_KEY_INDEX = "key_index"


def _recognise(look: PathLook) -> KafkaPath | None:
    from logdex.kafka.directory.recognise import recognise

    return recognise(look)


def _why_not(look: PathLook, hint: str) -> LogdexError | None:
    """Returns the reason for a .log file under another name, else None."""
    from logdex.kafka.directory.recognise import why_not

    return why_not(look)


def _open(found: KafkaPath, *, env: Env = DEFAULT_ENV, **settings: Any) -> KafkaSnapshot:
    from logdex.kafka.snapshot.log_dir_snapshot import open_kafka

    return open_kafka(found, env=env, **settings)


def _tables(found: KafkaPath, snapshot: KafkaSnapshot, *, env: Env = DEFAULT_ENV, **options: Any) -> KafkaTables:
    from logdex.kafka.tables.log_tables import KafkaTables

    return KafkaTables(found, snapshot, env=env, **options)


def _overview(found: KafkaPath, settings: Settings, *, env: Env = DEFAULT_ENV) -> KafkaOverview | KafkaFileOverview:
    if found.is_beside_a_log:
        from logdex.kafka.snapshot.file_overview import file_overview

        return file_overview(found, env=env)
    from logdex.kafka.snapshot.overview import overview

    return overview(found, LogConfig(**settings), env=env)


def _unfinished(found: KafkaPath, *, env: Env = DEFAULT_ENV) -> list[Unfinished]:
    from logdex.kafka.directory.unfinished import unfinished_at

    return unfinished_at(found, env)


def _log_size_bytes(found: KafkaPath, *, env: Env = DEFAULT_ENV) -> int:
    from logdex.kafka.verify import log_size_bytes

    return log_size_bytes(found, env=env)


def _infers_interval(settings: Settings) -> bool:
    """Whether the interval is inferred from the indexes, since no interval is given."""
    return settings.get("index_interval_bytes") is None


def _verify(
    found: KafkaPath,
    settings: Settings,
    *,
    max_findings: int,
    checks: Collection[str] | None = None,
    runner: Runner | None = None,
    env: Env = DEFAULT_ENV,
) -> VerifyReport:
    from logdex.kafka.verify import verify

    return verify(
        found,
        LogConfig(**settings),
        infer_interval=_infers_interval(settings),
        states_version=settings.get("kafka_version") is not None,
        max_findings=max_findings,
        checks=checks,
        flags=given_flags(settings),
        runner=runner,
        env=env,
    )


def _rebuild(
    found: KafkaPath,
    settings: Settings,
    output: str | None,
    *,
    in_place: bool = False,
    sync: bool = True,
    env: Env = DEFAULT_ENV,
) -> RebuildJob:
    from logdex.jobs.tasks import LocalRunner
    from logdex.kafka.rebuild import rebuild_on, rebuild_settings
    from logdex.kafka.rebuild.source import find_source

    own = rebuild_settings(settings.get("index_interval_bytes"), key_index=bool(settings.get(_KEY_INDEX)), sync=sync)
    target = _directory(found) if output is None else output
    flags = given_flags(settings)

    def run(progress: Progress | None) -> KafkaRebuildReport:
        return rebuild_on(
            LocalRunner(progress), found, target, own, in_place=in_place, flags=flags, env=env, worker_env=env
        )

    def run_on(runner: Runner, engine: str) -> KafkaRebuildReport:
        return rebuild_on(runner, found, target, own, in_place=in_place, engine=engine, flags=flags, env=env)

    return RebuildJob(target, find_source(found, env).size_bytes, run, run_on)


def _recover(
    found: KafkaPath,
    settings: Settings,
    output: str | None,
    *,
    in_place: bool = False,
    sync: bool = True,
    env: Env = DEFAULT_ENV,
) -> RecoverJob:
    from logdex.kafka.recover import recover

    target = _directory(found) if output is None else output
    config, infer = LogConfig(**settings), _infers_interval(settings)

    def run(runner: Runner | None) -> RecoverReport:
        return recover(
            *(found, target, config),
            infer_interval=infer,
            in_place=in_place,
            sync=sync,
            flags=given_flags(settings),
            runner=runner,
            env=env,
        )

    return RecoverJob(target, _log_size_bytes(found, env=env), run)


def _dispatch(found: KafkaPath, settings: Settings, output: str, *, env: Env = DEFAULT_ENV) -> LogDispatcher:
    from logdex.kafka.dispatch.job import LogDispatcher
    from logdex.kafka.rebuild import rebuild_settings

    own = rebuild_settings(settings.get("index_interval_bytes"), key_index=True, sync=True)
    return LogDispatcher(found, output, index_interval_bytes=own.index_interval_bytes, env=env)


def _directory(found: KafkaPath) -> str:
    """Returns the log directory, or the directory of the partition or of the file's partition."""
    from logdex.kafka.directory.partition_files import partition_directory
    from logdex.kafka.directory.recognise import KafkaPathKind

    return found.path if found.kind is KafkaPathKind.LOG_DIR else partition_directory(found)


FORMAT = Format(
    name="kafka",
    title="Kafka",
    paths=("a Kafka log directory", "a topic-N directory", "a .log file"),
    log_title="logs",
    settings=declared_settings(LogConfig),
    rebuild_settings=(_KEY_INDEX,),
    recognise=_recognise,
    why_not=_why_not,
    open=_open,
    tables=_tables,
    table_options=("control", "isolation"),
    overview=_overview,
    unfinished=_unfinished,
    log_size_bytes=_log_size_bytes,
    verify=_verify,
    rebuild=_rebuild,
    recover=_recover,
    dispatch=_dispatch,
)
