"""`logdex doctor`: shows what Logdex uses on this machine, and tries it out with a Spark job of one
row."""

from __future__ import annotations

import importlib.util
import json
import platform
import sys
import time
from dataclasses import dataclass, field
from typing import Annotated

import typer

import logdex
from logdex.cli.app import app, epilog
from logdex.errors import LogdexError
from logdex.frames.extras import to_install
from logdex.io.env import DEFAULT_ENV

LIBRARIES = ("numba", "isal", "numpy", "pyarrow")
"""The libraries that the engine requires."""
_SPARK = "'logdex[spark]'"


@dataclass
class Findings:
    """What was found: `facts` in the order in which they are printed, and `problems` with one line
    each, which states what to do. `notes` are about what is missing and not required."""

    facts: dict[str, object] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@app.command(epilog=epilog("logdex doctor", "logdex doctor --json"))
def doctor(
    master: Annotated[
        str | None, typer.Option(help="The Spark master to try, instead of local[1].", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show which Python, Java, Spark and workers are used, and run a one-row job. Exit 0 good, 2
    cannot run.

    An installation without Spark is good: --engine spark alone needs it.
    """
    findings = Findings()
    _look_at_python(findings)
    if _look_at_spark(findings, is_asked=master is not None):
        _run_one_row(findings, master or "local[1]")
    if as_json:
        told = {"ok": not findings.problems, "problems": findings.problems, "notes": findings.notes}
        typer.echo(json.dumps({**findings.facts, **told}))
    else:
        _print_table(findings)
    if findings.problems:
        raise typer.Exit(2)


def _look_at_python(findings: Findings) -> None:
    import tempfile

    temp_dir = tempfile.gettempdir()
    findings.facts |= {
        "logdex": logdex.__version__,
        "python": platform.python_version(),
        "python_path": sys.executable,
        **{name: _version_of(name) for name in LIBRARIES},
        "temp_dir": temp_dir,
        "temp_free_bytes": DEFAULT_ENV.free_bytes(temp_dir),
    }
    for name in LIBRARIES:
        if findings.facts[name] is None:
            findings.problems.append(f"{name} is not installed: {to_install(name)}")


def _look_at_spark(findings: Findings, *, is_asked: bool) -> bool:
    """Looks for Spark and Java. Returns whether both were found. An installation without PySpark
    needs no Java, and is a problem only if Spark `is_asked` for."""
    from logdex.spark.java import find_java

    findings.facts["spark"] = _version_of("pyspark")
    if importlib.util.find_spec("pyspark") is None:
        findings.facts |= {"spark": None, "java": None}
        how = f"PySpark is not installed, which --engine spark needs: {to_install(_SPARK)}"
        (findings.problems if is_asked else findings.notes).append(how)
        return False
    try:
        java = find_java()
    except LogdexError as error:
        findings.facts["java"] = None
        findings.problems.append(str(error))
        return False
    findings.facts |= {"java": java.version, "java_home": java.home, "java_source": java.source}
    if java.passed_over:
        findings.facts["java_passed_over"] = list(java.passed_over)
    return findings.facts["spark"] is not None


def _run_one_row(findings: Findings, master: str) -> None:
    from logdex.spark.session import COORDINATING, ask_worker, session

    findings.facts["master"] = master
    begin = time.monotonic()
    try:
        with session(master, app_name="logdex doctor", conf=COORDINATING) as spark:
            worker = ask_worker(spark)
    except LogdexError as error:
        findings.facts["job"] = None
        is_named = error.hint is not None and not error.hint.startswith("run logdex doctor")
        findings.problems.append(f"{error.message}; {error.hint}" if is_named else error.message)
        return
    findings.facts |= {
        "worker_python": worker["version"],
        "worker_python_path": worker["python"],
        "worker_logdex": worker["logdex"],
        "job": "ok",
        "job_seconds": round(time.monotonic() - begin, 1),
    }
    if worker["logdex"] != logdex.__version__:
        findings.problems.append(f"the workers have logdex {worker['logdex']}, this is {logdex.__version__}")


def _version_of(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _print_table(findings: Findings) -> None:
    facts = findings.facts

    def row(label: str, *parts: object) -> None:
        typer.echo(f"{label:<10} {'  '.join(str(part) for part in parts if part is not None)}")

    row("logdex", facts["logdex"])
    row("Python", facts["python"], facts["python_path"])
    row("engine", *(f"{name} {facts[name] or 'missing'}" for name in LIBRARIES))
    row("temp", facts["temp_dir"], f"{int(str(facts['temp_free_bytes'])) / 1e9:.1f} GB free")
    row("Spark", facts["spark"] or "not installed")
    if facts["spark"] is not None:
        row("Java", facts["java"] or "missing", facts.get("java_home"), facts.get("java_source"))
    for reason in findings.facts.get("java_passed_over") or []:  # type: ignore[attr-defined]
        row("", f"not used: {reason}")
    if "worker_python" in facts:
        row(
            "workers",
            f"Python {facts['worker_python']}",
            facts["worker_python_path"],
            f"logdex {facts['worker_logdex']}",
        )
    if "job" in facts:
        row("job", facts["job"] or "failed", f"on {facts['master']}", _seconds(facts.get("job_seconds")))
    for note in findings.notes:
        row("note", note)
    for problem in findings.problems:
        row("PROBLEM", problem)


def _seconds(value: object) -> str | None:
    return None if value is None else f"in {value} s"
