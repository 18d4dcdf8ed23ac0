"""A real HDFS, Hadoop's own small cluster: read through fsspec's webhdfs as local files are, by
ranges."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import logdex
from logdex.io.env import Env
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.spark.sources.options import camel_case
from tests.conformance.rocketmq.test_store import geometry_of
from tests.java import QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.needs_java, pytest.mark.timeout(1200)]

PROGRAM = Path(__file__).parent / "Hdfs.java"
JARS = {
    "org.apache.hadoop:hadoop-client-minicluster": "3.4.2",
    "org.apache.hadoop:hadoop-client-api": "3.4.2",
    "org.apache.hadoop:hadoop-client-runtime": "3.4.2",
    "javax.xml.bind:jaxb-api": "2.3.1",
}
"""Hadoop's cluster in one process, and what its web server misses in a newer Java."""
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


def class_path(folder: Path) -> str:
    """The jars of Hadoop's small cluster, which Maven brings; skips where it cannot."""
    needed = "".join(DEPENDENCY.format(*name.split(":"), version) for name, version in JARS.items())
    head = "<modelVersion>4.0.0</modelVersion><groupId>logdex</groupId><artifactId>hdfs</artifactId>"
    pom = f"<project>{head}<version>1</version><dependencies>{needed}</dependencies></project>"
    (folder / "pom.xml").write_text(pom)
    command = ["mvn", "-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=class-path.txt"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        pytest.skip(f"Maven does not bring Hadoop: {done.stdout[-300:]}")
    return (folder / "class-path.txt").read_text().strip()


@contextmanager
def hdfs(folder: Path, *sources: Path) -> Iterator[str]:
    """The address of an HDFS with copies of some directories."""
    jars = class_path(folder)
    subprocess.run(["javac", "-d", str(folder), "-cp", jars, str(PROGRAM)], check=True, capture_output=True)
    command = ["java", *QUICK, "-cp", f"{folder}:{jars}", "logdex.Hdfs", str(folder / "dfs"), *map(str, sources)]
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    assert running.stdin is not None
    assert running.stdout is not None
    try:
        address = running.stdout.readline().strip()
        assert address.startswith("webhdfs://"), (folder / "log").read_text()[-3000:]
        yield address
    finally:
        running.stdin.close()
        running.wait(60)
        running.stdout.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all answers that this process is sent by HTTP."""
    requests = pytest.importorskip("requests", reason="needs requests, for fsspec's webhdfs")
    found: list[int] = []
    send = requests.Session.send

    def counted(session: Any, request: Any, **options: Any) -> Any:
        answer = send(session, request, **options)
        found.append(len(answer.content))
        return answer

    monkeypatch.setattr(requests.Session, "send", counted)
    return found


@pytest.mark.spark
def test_rows_are_those_of_local_files(
    sent: list[int],
    spark: SparkSession,
    golden_store: Callable[..., Path],
    golden_log: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    store, logs, large = golden_store("tiny-broker"), golden_log("tiny-broker"), tmp_path / "large"
    large.mkdir()
    with Log.open(large / "t-0") as log:
        for number in range(3000):
            log.append([Record(b"k-%d" % number, b"%04d" % number * 1000)])
    with hdfs(tmp_path, store, logs, large) as address:
        geometry = geometry_of("tiny-broker")
        given = {camel_case(name): str(value) for name, value in geometry.items()}
        for source, root, settings, options in (
            ("rocketmq_store", store, geometry, given),
            ("kafka_log", logs, {}, {}),
        ):
            url, env = f"{address}/{root.name}", Env()
            with logdex.open(root, **settings) as here, logdex.open(url, env=env, **settings) as there:
                rows = here.scan().to_arrow().read_all()
                assert there.scan().to_arrow().read_all().to_pylist() == rows.to_pylist() != []
            assert not env.exists(f"{url}/none")
            assert env.modified_ns(url) > 0
            local, remote = (
                spark.read.format(source).options(**options).load(str(path)).drop("logDir") for path in (root, url)
            )
            assert remote.collect() == local.collect() != []

        sent.clear()
        with logdex.open(f"{address}/large") as there:
            found = there.scan(offset=1500, end_offset=1503).to_arrow().read_all()  # type: ignore[call-arg]
        assert found["offset"].to_pylist() == [1500, 1501, 1502]
        assert 12_000 < sum(sent) < 2_000_000, "of 12 MB"
