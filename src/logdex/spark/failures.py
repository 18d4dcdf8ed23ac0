"""Reports a failure of Spark as one line: the cause inside two screens of Java stack trace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from logdex.errors import EnvironmentProblem

_LOG_TAIL_BYTES = 64 << 10
_LINE_LENGTH_MAX = 400
_HINT = "run logdex doctor to check the set-up"

_RAISED = re.compile(r"^(?:[A-Za-z_$][\w$]*\.)*([A-Z]\w*(?:Error|Exception|Interrupt|Problem|Exit)\b.*)$")
"""Matches the last line of a Python traceback or the first of a Java one: `package.Name:
message`."""

_NOISE = re.compile(r'^(: |Caused by: |Exception in thread "[^"]*" )+')
_LOGGED = re.compile(r"^\d\d/\d\d/\d\d \d\d:\d\d:\d\d [A-Z]+ [\w.$]+: ")
"""Time, level and class in front of a line of Spark's log."""

_UNIMPORTANT = re.compile(r"^\t| WARN | INFO |^WARNING: |log4j")
_COMPLAINT = re.compile(r"error|exception|unable|cannot|unresponsive", re.IGNORECASE)


@contextmanager
def spark_failures(log_path: Path | None = None) -> Iterator[None]:
    """Turns errors of PySpark and Py4J into `EnvironmentProblem`.

    `log_path` is the file that has Java's output, if there is one.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise EnvironmentProblem(f"Spark failed: {one_line(error, log_path)}", hint=_HINT) from error


def one_line(error: Exception, log_path: Path | None = None) -> str:
    """The cause: a worker's Python error, else the deepest Java cause, else Java's last output."""
    try:
        text = str(error)
    except Exception:  # Py4J asks Java for the text, but Java has ended
        return ("Java ended: " + _last_words(log_path)).removesuffix(": ")
    if _lost_java(error, text):
        return ("Java ended: " + _last_words(log_path)).removesuffix(": ")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [match[1] for line in lines if (match := _RAISED.match(_NOISE.sub("", line)))]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    if "Traceback (most recent call last)" in text and raised:
        chosen = next(
            (line for line in raised if not line.startswith(("SparkException", "PythonException"))), raised[0]
        )
    elif causes:
        chosen = _NOISE.sub("", causes[-1])
    else:
        chosen = (raised or lines or [type(error).__name__])[0]
    if "stopped SparkContext" in text:  # Spark stopped by itself, and only the log shows why
        chosen = _last_words(log_path) or chosen
    return chosen[:_LINE_LENGTH_MAX]


def _lost_java(error: Exception, text: str) -> bool:
    from py4j.protocol import Py4JError, Py4JJavaError

    if isinstance(error, Py4JError):
        return not isinstance(error, Py4JJavaError) and "does not exist" not in text
    return isinstance(error, ConnectionError) or "JAVA_GATEWAY_EXITED" in text


def _last_words(log_path: Path | None) -> str:
    """The last error in Java's output, or its last line."""
    if log_path is None or not log_path.exists():
        return ""
    text = log_path.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _UNIMPORTANT.search(line)]
    said = [line for line in lines if _COMPLAINT.search(line)] or lines
    return _NOISE.sub("", _LOGGED.sub("", said[-1]))[:_LINE_LENGTH_MAX] if said else ""
