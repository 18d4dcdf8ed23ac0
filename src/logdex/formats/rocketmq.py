"""The functions and settings of RocketMQ in the registry of formats."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal

from logdex.errors import LogdexError, MissingFileError
from logdex.formats.format import Format, RebuildJob, RecoverJob, Settings
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import PathLook
from logdex.jobs.settings import declared_settings, given_flags
from logdex.rocketmq.settings.store_settings import StoreSettings

if TYPE_CHECKING:
    from logdex.jobs.findings import VerifyReport
    from logdex.jobs.journal import Unfinished
    from logdex.jobs.reports import Progress
    from logdex.jobs.tasks import Runner
    from logdex.rocketmq.dispatch.job import Dispatcher
    from logdex.rocketmq.ha.follower import Follower
    from logdex.rocketmq.rebuild.report import RebuildReport
    from logdex.rocketmq.recognise.store_path import StorePath
    from logdex.rocketmq.recover.report import RecoverReport
    from logdex.rocketmq.snapshot.file_overview import FileOverview
    from logdex.rocketmq.snapshot.overview import StoreOverview
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
    from logdex.rocketmq.tables.store_tables import StoreTables

_DELETED_TOPICS = "deleted_topics"
_TIME_ZONE = "time_zone"


def _recognise(look: PathLook) -> StorePath | None:
    from logdex.rocketmq.recognise.store_path import recognise

    return recognise(look)


def _why_not(look: PathLook, hint: str) -> LogdexError:
    from logdex.rocketmq.recognise.require_store import why_not

    return why_not(look, hint)


def _open(found: StorePath, *, env: Env = DEFAULT_ENV, **settings: object) -> StoreSnapshot:
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

    return StoreSnapshot(found, env=env, **settings)  # type: ignore[arg-type]


def _tables(found: StorePath, snapshot: StoreSnapshot, *, env: Env = DEFAULT_ENV, **options: Any) -> StoreTables:
    from logdex.rocketmq.tables.store_tables import StoreTables

    return StoreTables(snapshot, env=env, **options)


def _overview(found: StorePath, settings: Settings, *, env: Env = DEFAULT_ENV) -> StoreOverview | FileOverview:
    if not found.holds_messages:
        from logdex.rocketmq.snapshot.file_overview import file_overview

        return file_overview(found, env=env)
    from logdex.rocketmq.geometry.resolve import resolve_in_any_case
    from logdex.rocketmq.snapshot.overview import overview

    config, geometry_error = resolve_in_any_case(found.path, env=env, **settings)
    look = overview(found.path, config, env=env)
    if geometry_error is not None:
        look.problems.append(geometry_error.message)
    look.problems += [f"{found.path}: {each.message}" for each in _unfinished(found, env=env)]
    look.problems += [f"{found.path}: CommitLog offsets {start} to {end} are missing" for start, end in look.log.gaps]
    return look


def _unfinished(found: StorePath, *, env: Env = DEFAULT_ENV) -> list[Unfinished]:
    from logdex.rocketmq.recognise.unfinished import unfinished_at

    return unfinished_at(found, env)


def _log_size_bytes(found: StorePath, *, env: Env = DEFAULT_ENV) -> int:
    from logdex.rocketmq.commit_log.commit_log import CommitLog
    from logdex.rocketmq.recognise.require_store import require_store

    try:
        with CommitLog.of_store(require_store(found).path, env=env) as log:
            return log.size_bytes
    except MissingFileError:  # the log may lie elsewhere, which only the settings tell
        return 0


def _verify(
    found: StorePath,
    settings: Settings,
    *,
    max_findings: int,
    checks: Collection[str] | None = None,
    runner: Runner | None = None,
    env: Env = DEFAULT_ENV,
) -> VerifyReport:
    from logdex.rocketmq.geometry.resolve import contradiction, resolve_in_any_case
    from logdex.rocketmq.recognise.require_store import require_store
    from logdex.rocketmq.verify import verify

    root = require_store(found).path
    config, unsettled = resolve_in_any_case(root, env=env, **settings)
    flags = given_flags(settings)
    report = verify(root, config, max_findings=max_findings, checks=checks, flags=flags, runner=runner, env=env)
    report.unsettled = contradiction(config) if unsettled is None else unsettled
    return report


def _settled(
    found: StorePath, output: str | None, *, in_place: bool, sync: bool, env: Env
) -> tuple[str, str, list[str]]:
    """Returns (root of the store, where a job writes, what was done about an unfinished publication
    there). That comes first, because sizes are inferred from the files that are there."""
    from logdex.rocketmq.rebuild.source import settle_unfinished
    from logdex.rocketmq.recognise.require_store import require_store

    root = require_store(found).path
    target = root if output is None else output
    notes = settle_unfinished(root, target, in_place=True, sync=sync, env=env) if in_place else []
    return root, target, notes


def _flags(settings: Settings, env: Env) -> str:
    """Returns the flags of the settings, as they hold in any working directory."""
    conf = settings.get("broker_conf")
    return given_flags(settings if conf is None else {**settings, "broker_conf": env.real_path(os.fspath(conf))})


def _rebuild(
    found: StorePath,
    settings: Settings,
    output: str | None,
    *,
    in_place: bool = False,
    sync: bool = True,
    env: Env = DEFAULT_ENV,
) -> RebuildJob:
    from logdex.rocketmq.geometry.resolve import resolve_config
    from logdex.rocketmq.rebuild import rebuild, rebuild_on

    root, target, notes = _settled(found, output, in_place=in_place, sync=sync, env=env)
    own = {name: value for name, value in settings.items() if name not in (_DELETED_TOPICS, _TIME_ZONE)}
    config = resolve_config(root, env=env, **own)
    options: dict[str, Any] = {
        "in_place": in_place,
        "sync": sync,
        "deleted_topics": bool(settings.get(_DELETED_TOPICS)),
        "time_zone": settings.get(_TIME_ZONE),
        "flags": _flags(settings, env),
        "env": env,
    }

    def run(progress: Progress | None) -> RebuildReport:
        report = rebuild(root, target, config, progress=progress, **options)
        report.notes[:0] = notes
        return report

    def run_on(runner: Runner, engine: str) -> RebuildReport:
        report = rebuild_on(runner, root, target, config, engine=engine, **options)
        report.notes[:0] = notes
        return report

    return RebuildJob(target, _log_size_bytes(found, env=env), run, run_on)


def _recover(
    found: StorePath,
    settings: Settings,
    output: str | None,
    *,
    in_place: bool = False,
    sync: bool = True,
    env: Env = DEFAULT_ENV,
) -> RecoverJob:
    from logdex.rocketmq.geometry.resolve import resolve_config
    from logdex.rocketmq.recover import recover

    root, target, notes = _settled(found, output, in_place=in_place, sync=sync, env=env)
    config = resolve_config(root, env=env, **settings)

    def run(runner: Runner | None) -> RecoverReport:
        report = recover(
            *(root, target, config), in_place=in_place, sync=sync, flags=_flags(settings, env), runner=runner, env=env
        )
        report.notes[:0] = notes
        return report

    return RecoverJob(target, _log_size_bytes(found, env=env), run)


def _follow(
    address: str,
    output: str,
    settings: Settings,
    *,
    tap: bool = False,
    start: int | Literal["first", "last-file"] = "first",
    retry_for_s: float | None = None,
    env: Env = DEFAULT_ENV,
) -> Follower:
    from logdex.rocketmq.ha.follower import Follower

    return Follower(address, output, tap=tap, start=start, retry_for_s=retry_for_s, env=env, **settings)


def _dispatch(found: StorePath, settings: Settings, output: str, *, env: Env = DEFAULT_ENV) -> Dispatcher:
    from logdex.rocketmq.dispatch.job import Dispatcher
    from logdex.rocketmq.geometry.resolve import resolve_config
    from logdex.rocketmq.recognise.require_store import require_store

    root = require_store(found).path
    own = {name: value for name, value in settings.items() if name != _TIME_ZONE}
    return Dispatcher(root, output, resolve_config(root, env=env, **own), time_zone=settings.get(_TIME_ZONE), env=env)


FORMAT = Format(
    name="rocketmq",
    title="RocketMQ",
    paths=("a RocketMQ store's root (it holds commitlog/)", "a CommitLog file"),
    log_title="CommitLog",
    settings=declared_settings(StoreSettings),
    rebuild_settings=(_DELETED_TOPICS, _TIME_ZONE),
    recognise=_recognise,
    why_not=_why_not,
    open=_open,
    tables=_tables,
    table_options=("time_slack_ms", "decompress"),
    overview=_overview,
    unfinished=_unfinished,
    log_size_bytes=_log_size_bytes,
    verify=_verify,
    rebuild=_rebuild,
    recover=_recover,
    follow=_follow,
    dispatch=_dispatch,
)
