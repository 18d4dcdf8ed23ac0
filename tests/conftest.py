"""Fixtures for all tests, and the reasons for skipping where something is missing.

Golden stores: parametrise by `golden.NAMES` (`from tests.golden import rocketmq as golden`), then
take `golden_store(name)` for a copy that is only read (one per session) or `golden_copy(name)` for
one of your own.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from logdex.jobs import look_again
from logdex.kernels import compiled
from tests.examples import examples, takes_all
from tests.golden import kafka as golden_kafka
from tests.golden import rocketmq as golden
from tests.golden.archives import SHARED
from tests.java import QUICK
from tests.processes import FileScheduling, divide, turn
from tests.remote import s3_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

compiled.load()  # so that no test depends on how much plain work those before it did
gc.disable()  # until the tests are collected

# The first example of a property compiles kernels: no deadline means anything.
settings.register_profile("logdex", deadline=None, max_examples=examples(100))
settings.load_profile("logdex")

# Rebuilt IndexFiles are named by local time where nothing else is known.
os.environ["TZ"] = "UTC"
time.tzset()

os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join([*QUICK, "-XX:+UseSerialGC"]))

SHARED = SHARED
FROM_SHARED = {
    name for cases in (golden.CASES, golden_kafka.CASES) for name, path in cases.items() if SHARED in path.parents
}
"""The golden stores that the project does not carry."""
GoldenStore = Callable[..., Path]


def _missing_for_java() -> str | None:
    lacking = [tool for tool in ("javac", "mvn") if shutil.which(tool) is None]
    if not (SHARED / "peers" / "rocketmq").is_dir():
        lacking.append("../shared/peers")
    return f"needs {' and '.join(lacking)}" if lacking else None


def _missing_for_spark() -> str | None:
    return None if importlib.util.find_spec("pyspark") else "needs pyspark: pip install 'logdex[spark]'"


def _missing_for_shared() -> str | None:
    return None if SHARED.is_dir() else "needs ../shared beside the checkout"


FORMATS = {"kafka", "rocketmq"}
"""The folders whose tests are of one format."""
MARKERS = {"needs_java": _missing_for_java, "spark": _missing_for_spark, "needs_shared": _missing_for_shared}

PORT_TAKEN = "Address already in use"
"""What a peer's broker says if another program took its port. The peer looks for a free one a
second or more before the broker binds it, so among a thousand starts this happens."""


def _may_wait(item: pytest.Item) -> bool:
    """Whether only `scripts/test --all` runs a conformance test: each takes a fifth of the stores
    in ../shared, and its neighbours take others."""
    given = getattr(item, "callspec", None)
    stores = [value for value in given.params.values() if value in FROM_SHARED] if given else []
    return bool(stores) and zlib.crc32(f"{item.name.partition('[')[0]} {stores[0]}".encode()) % 5 > 0


def _is_varied(folders: tuple[str, ...]) -> bool:
    """Whether the cases of a test in these folders are stores, places to harm, or seeds."""
    if "cli" in folders:
        return not FORMATS.isdisjoint(folders)
    return not {"conformance", "crash", "hostile", "property", "verify"}.isdisjoint(folders)


def _half(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """Yields half of the cases of a varied test of which the default run would have two or more, or
    four or more where the cases may be of both formats. Only `scripts/test --all` runs these. They
    are chosen by a hash, because every second one may have the same parameter."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if _is_varied(item.path.parts) and not item.get_closest_marker("slow"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, found in cases.items():
        least = 4 if FORMATS.isdisjoint(found[0].path.parts) else 2
        if len(found) >= least and not name.endswith("::test_power_cuts"):  # each case has fifty seeds of two hundred
            yield from sorted(found, key=lambda item: zlib.crc32(item.nodeid.encode()))[: len(found) // 2]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling:
    """Divides the tests among the processes."""
    return FileScheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what this machine cannot run, with the reason, and puts the tests into groups and in
    order."""
    reasons = {name: missing() for name, missing in MARKERS.items()}
    for item in items:
        for name, reason in reasons.items():
            if reason and item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))
        if "conformance" in item.path.parts and not takes_all() and _may_wait(item):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("needs_java"):
            item.add_marker(pytest.mark.flaky(reruns=2, only_rerun=PORT_TAKEN))
    for item in () if takes_all() else _half(items):
        item.add_marker(pytest.mark.slow)
    for item, group in divide(items):
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=turn)


def pytest_collection_finish() -> None:
    """Ten thousand tests stay until the end: the garbage collector does not look at them again and
    again, and not after every 700 objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


@pytest.fixture(autouse=True)
def _no_pauses(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers in this process look again at once where a broker may be writing: only the tests in
    `interop`, and those with a writer beside them (`live_writer`), have one that needs the time."""
    if "interop" not in request.node.path.parts and not request.node.get_closest_marker("live_writer"):
        monkeypatch.setattr(look_again, "PAUSE_S", 0.0)


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder ../shared; skips where it is absent."""
    reason = _missing_for_shared()
    if reason:
        pytest.skip(reason)
    return SHARED


@pytest.fixture(scope="session")
def peers_dir() -> Path:
    """../shared/peers/rocketmq on a machine that can build and run it; skips elsewhere."""
    reason = _missing_for_java()
    if reason:
        pytest.skip(reason)
    return SHARED / "peers" / "rocketmq"


@pytest.fixture(scope="session")
def golden_store(tmp_path_factory: pytest.TempPathFactory) -> GoldenStore:
    """`golden_store(name, recovered=False)`: the unpacked directory, one a session. Only read
    it."""
    unpacked: dict[tuple[str, bool], Path] = {}

    def get(name: str, *, recovered: bool = False) -> Path:
        key = (name, recovered)
        if key not in unpacked:
            unpacked[key] = golden.unpack(name, tmp_path_factory.mktemp(f"golden-{name}"), recovered=recovered)
        return unpacked[key]

    return get


@pytest.fixture
def golden_copy(tmp_path: Path) -> GoldenStore:
    """`golden_copy(name, recovered=False)`: a directory of the test's own, to harm or rebuild in
    place."""
    return lambda name, *, recovered=False: golden.unpack(name, tmp_path / "golden" / name, recovered=recovered)


@pytest.fixture(scope="session")
def golden_log(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`golden_log(name)`: the unpacked Kafka log directory of a case, one a session. Only read
    it."""
    unpacked: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in unpacked:
            unpacked[name] = golden_kafka.unpack(name, tmp_path_factory.mktemp(f"golden-{name}"))
        return unpacked[name]

    return get


@pytest.fixture
def golden_log_copy(tmp_path: Path) -> Callable[[str], Path]:
    """`golden_log_copy(name)`: a log directory of the test's own, to harm or to write to."""
    return lambda name: golden_kafka.unpack(name, tmp_path / "golden" / name)


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, Any]]:
    """The storage options of one S3-compatible server for all tests of a process."""
    with s3_server() as storage:
        yield storage


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One `local[2]` session for all tests that are marked `spark`."""
    from logdex.spark.session import COORDINATING, session

    with session("local[2]", app_name="logdex tests", conf=COORDINATING) as running:
        yield running


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    """Has Spark push filters down to Python sources."""
    from logdex.spark.sources import PUSHDOWN

    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.unset(PUSHDOWN)
