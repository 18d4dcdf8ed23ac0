"""A Spark session for Logdex: finds Java, runs workers on this Python, and stops what it started.

If you have a session, use that one: nothing else in `logdex.spark` needs this module.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import logdex
from logdex.errors import EnvironmentProblem, UsageError
from logdex.frames.extras import show_pandas, to_install
from logdex.spark.failures import spark_failures
from logdex.spark.java import find_java
from logdex.spark.master import check_reachable, is_connect_server, is_local

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

STOP_TIMEOUT_S = 20

DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Arrow batches travel between Java and workers over a Unix socket: faster, without stalls of
    # loopback TCP
    "spark.python.unix.domain.socket.enabled": "true",
    # a crashed worker prints its stack
    "spark.python.worker.faulthandler.enabled": "true",
}
"""Settings of every session; `conf` overrides them."""

_CHATTY = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

_ON_THIS_MACHINE: Mapping[str, str] = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}

COORDINATING: Mapping[str, str] = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""Settings for jobs in which the driver's Java only coordinates: its optimising compiler would take
half a core from the workers for minutes. The rows of a DataFrame pass through Java, which takes
three times as long for them without that compiler."""


@contextmanager
def session(
    master: str = "local[*]", app_name: str = "logdex", conf: Mapping[str, str] | None = None, *, verbose: bool = False
) -> Iterator[SparkSession]:
    """Yields a running session, and stops it and its Java process at the end.

    On a local master the workers run this Python and import this `logdex`. On a cluster,
    PYSPARK_PYTHON names the workers' Python, in which `logdex` must be installed. Java's output is
    hidden unless `verbose`. A master ``sc://HOST:PORT`` is a Spark Connect server: then the session
    is one of Spark Connect, with the settings and the workers of the server. If this process
    already runs a session on the same master, that one is yielded and left running.

    Raises `EnvironmentProblem` if PySpark or Java is missing, no Spark master answers, Spark does
    not start or a job fails inside Spark, and `UsageError` if this process runs a session on
    another master. Do not call it from several threads at once.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise EnvironmentProblem("PySpark is not installed", hint=to_install("'logdex[spark]'"))
    show_pandas()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    running = SparkContext._active_spark_context
    if running is not None:
        if running.master != master:
            raise UsageError(
                f"this process already runs Spark on {running.master}, not on {master}",
                hint="use that session, or stop it first",
            )
        with spark_failures():
            yield SparkSession.builder.getOrCreate()
        return

    check_reachable(master)
    if is_connect_server(master):
        with _connected(master) as spark:
            yield spark
        return
    log_path = None if verbose else _new_log()
    gateway = None
    try:
        with _quiet(not verbose), spark_failures(log_path):
            with _environment(master):
                settings = _settings(master, app_name, conf or {})
                gateway = _launch(settings, log_path)
                context = SparkContext(conf=settings, gateway=gateway)
            yield SparkSession(context)
    finally:
        _stop(gateway)
        if log_path is not None:
            log_path.unlink(missing_ok=True)


@contextmanager
def _connected(server: str) -> Iterator[SparkSession]:
    """Yields a session on a Spark Connect server, and ends it."""
    try:
        from pyspark.sql.connect.session import SparkSession as ConnectSession
    except ImportError as error:  # PySpark's own error names each package, one after the other
        missing = "PySpark lacks what it needs for Spark Connect"
        raise EnvironmentProblem(missing, hint=to_install("'pyspark[connect]'")) from error
    with spark_failures():
        spark = ConnectSession.builder.remote(server).create()
        try:
            yield spark  # type: ignore[misc]  # both classes are one to their users
        finally:
            spark.stop()


def _settings(master: str, app_name: str, conf: Mapping[str, str]) -> SparkConf:
    from pyspark import SparkConf

    settings = SparkConf(loadDefaults=False).setMaster(master).setAppName(app_name)
    return settings.setAll([*({**DEFAULTS, **(_ON_THIS_MACHINE if is_local(master) else {}), **conf}).items()])


def _launch(settings: SparkConf, log_path: Path | None) -> Any:
    """Starts Java and returns its gateway; SparkContext itself cannot redirect Java's output."""
    from pyspark.java_gateway import launch_gateway

    if log_path is None:
        return launch_gateway(settings)
    with log_path.open("wb") as log:
        return launch_gateway(settings, {"stdout": log, "stderr": subprocess.STDOUT})


def _stop(gateway: Any) -> None:
    """Stops Spark and its Java, ignoring errors."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if gateway is None:
        return
    context = SparkContext._active_spark_context
    try:
        active = SparkSession._instantiatedSession
        if active is not None:
            active.stop()
        elif context is not None:
            context.stop()
    except Exception:  # Java may have ended already
        pass
    try:
        gateway.shutdown()
    except Exception:  # as above
        pass
    process = gateway.proc
    if process is not None:
        process.stdin.close()  # Java ends when this pipe is closed
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    # PySpark keeps one gateway per process; a later session must start its own.
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None


@contextmanager
def _environment(master: str) -> Iterator[None]:
    """Sets the environment variables that Spark reads at its start, and restores them
    afterwards."""
    wanted = {"JAVA_HOME": find_java().home, "PYSPARK_DRIVER_PYTHON": sys.executable}
    if is_local(master):
        wanted |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        source = str(Path(logdex.__file__).parent.parent)
        if source not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
            wanted["PYTHONPATH"] = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
    elif "PYSPARK_PYTHON" not in os.environ:
        wanted["PYSPARK_PYTHON"] = sys.executable
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _quiet(wanted: bool) -> Iterator[None]:
    """Hides PySpark's and Py4J's own log lines: each repeats an error that is raised as well."""

    def not_theirs(record: logging.LogRecord) -> bool:
        return not wanted or not {"py4j", "pyspark"} & set(Path(record.pathname).parts)

    from pyspark.logger import PySparkLogger

    loggers = [logging.getLogger(), *map(PySparkLogger.getLogger, _CHATTY)]
    for logger in loggers:
        logger.addFilter(not_theirs)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(not_theirs)


def _new_log() -> Path:
    descriptor, name = tempfile.mkstemp(prefix="logdex-spark-", suffix=".log")
    os.close(descriptor)
    return Path(name)


def worker_facts(batches: Iterator[Any]) -> Iterator[Any]:
    """For `mapInArrow`: one row (python, version, logdex) per batch, which describes the worker."""
    import pyarrow as pa

    for _ in batches:
        row = {"python": sys.executable, "version": sys.version.split()[0], "logdex": logdex.__version__}
        yield pa.RecordBatch.from_pylist([row])


def ask_worker(spark: SparkSession) -> dict[str, str]:
    """Runs a one-row job and returns a worker's Python path, Python version and `logdex`
    version."""
    with spark_failures():
        row = spark.range(1, numPartitions=1).mapInArrow(worker_facts, "python string, version string, logdex string")
        return {name: str(value) for name, value in row.collect()[0].asDict().items()}
