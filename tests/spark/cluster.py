"""A standalone Spark cluster on this machine."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def spark_home() -> Path:
    """The folder of the installed Spark."""
    import pyspark

    return Path(pyspark.__file__).parent


def spark_environ(directory: Path) -> dict[str, str]:
    """The environment of Spark's own programs, which write below `directory`."""
    from logdex.spark.java import find_java

    return {
        **os.environ,
        "JAVA_HOME": find_java().home,
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(directory),
        "SPARK_LOG_DIR": str(directory),
    }


@contextmanager
def standalone(directory: Path) -> Iterator[str]:
    """A master and two workers of one core each, through ``spark-class``; the master's address."""
    program = str(spark_home() / "bin" / "spark-class")
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> Path:
        log = directory / f"{name}.log"
        with log.open("wb") as file:
            command, environ = [program, *arguments], spark_environ(directory)
            started = subprocess.Popen(command, env=environ, cwd=directory, stdout=file, stderr=subprocess.STDOUT)
            processes.append(started)
        return log

    def wait_for(log: Path, pattern: str) -> str:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if found := re.search(pattern, log.read_text(errors="replace")):
                return found[0]
            time.sleep(0.1)
        raise AssertionError(log.read_text(errors="replace")[-3000:])

    try:
        host = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = wait_for(start("master", "org.apache.spark.deploy.master.Master", *host), r"spark://127[.\d]+:\d+")
        for number in range(2):
            kind = "org.apache.spark.deploy.worker.Worker"
            where = ("--cores", "1", "--memory", "1g", "--work-dir", str(directory / f"work-{number}"))
            wait_for(start(f"worker-{number}", kind, *host, *where, master), "Successfully registered with master")
        yield master
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(30)
