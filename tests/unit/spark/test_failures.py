"""One line out of what PySpark and Py4J say."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.errors import CorruptError, EnvironmentProblem
from logdex.spark.failures import one_line, spark_failures

pytest.importorskip("pyspark", reason="needs pyspark: pip install 'logdex[spark]'")

WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "job.py", line 3, in task
logdex.errors.CorruptError: 00000000000000000000: byte 17: the body's CRC is wrong
"""

JAVA = """An error occurred while calling o1.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.Some.method(Some.scala:1)
Caused by: java.lang.IllegalStateException: in between
Caused by: java.io.IOException: No space left on device
\t... 12 more
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (WORKER, "CorruptError: 00000000000000000000: byte 17: the body's CRC is wrong"),
        (JAVA, "java.io.IOException: No space left on device"),
        ("[UNRESOLVED_COLUMN] nope\n'Project", "[UNRESOLVED_COLUMN] nope"),
        (
            "o1.x.\n: a.b.SparkException: Could not parse Master URL: 'x'\n\tat a",
            "SparkException: Could not parse Master URL: 'x'",
        ),
        ("", "ValueError"),
        ("x" * 5000, "x" * 400),
    ],
)
def test_the_line_that_matters(text: str, line: str) -> None:
    assert one_line(ValueError(text)) == line


def test_java_that_died_is_quoted_from_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("Error: bad option\n26/11/21 WARN NativeCodeLoader: Unable to load\n\tat some.place\nbye\n")
    assert one_line(ConnectionResetError("reset"), log) == "Java ended: Error: bad option"
    log.write_text("bye\n")
    assert one_line(ConnectionResetError("reset"), log) == "Java ended: bye"
    assert one_line(ConnectionResetError("reset"), tmp_path / "none") == "Java ended"


def test_an_error_whose_text_java_took_with_it(tmp_path: Path) -> None:
    class Gone(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError

    (tmp_path / "log").write_text("Error: out of memory\n")
    assert one_line(Gone(), tmp_path / "log") == "Java ended: Error: out of memory"


def test_only_sparks_errors_are_turned() -> None:
    from pyspark.errors import PySparkRuntimeError

    with pytest.raises(EnvironmentProblem, match="Spark failed: boo"), spark_failures():
        raise PySparkRuntimeError("boo")
    with pytest.raises(CorruptError), spark_failures():
        raise CorruptError("bad", path="p", position=0)
    with pytest.raises(FileNotFoundError), spark_failures():
        raise FileNotFoundError("p")


def test_what_spark_logs_is_quoted_without_its_stamp(tmp_path: Path) -> None:
    reason = "All masters are unresponsive! Giving up."
    (tmp_path / "log").write_text(f"26/11/22 11:00:00 ERROR StandaloneSchedulerBackend: {reason}\n")
    assert one_line(ConnectionResetError("reset"), tmp_path / "log") == f"Java ended: {reason}"
